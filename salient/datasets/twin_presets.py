"""Sizes and character of the synthetic twins. May import: numpy.

Nothing here uses a function whose last bits depend on the machine's mathematical library: tables
are made by the four operations and roots of IEEE arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

# Of a graph's degrees: (degree, share of nodes with at least this degree).
Survival = tuple[tuple[int, float], ...]

# Measured on the real ogbn-arxiv, symmetrised, without duplicates.
_ARXIV: Survival = (
    (1, 1.0), (2, 0.87833), (3, 0.76895), (4, 0.67904), (5, 0.60513), (6, 0.54223), (7, 0.49019),
    (8, 0.44458), (9, 0.40482), (10, 0.36994), (12, 0.31147), (14, 0.26416), (16, 0.22624),
    (20, 0.16819), (24, 0.12750), (28, 0.09852), (32, 0.07674), (40, 0.05002), (50, 0.03303),
    (64, 0.02180), (80, 0.01555), (100, 0.01104), (128, 0.007358), (160, 0.005173),
    (200, 0.003744), (256, 0.002581), (320, 0.001842), (400, 0.001281), (512, 0.000945),
    (700, 0.00062), (1_000, 0.000337), (1_500, 0.000171), (2_000, 0.000118), (3_000, 0.000065),
    (5_000, 0.0000177), (13_161, 0.0000059),
)  # fmt: skip

# The mean of 50.5 follows from the published sizes. The maximum, 17,481, is recalled and not
# checked against the original; what lies between is assumed. See docs/twins.md.
_PRODUCTS: Survival = (
    (1, 1.0), (2, 0.96), (4, 0.90), (8, 0.80), (14, 0.68), (26, 0.50), (40, 0.365), (60, 0.24),
    (90, 0.14), (119, 0.095), (160, 0.056), (220, 0.029), (346, 0.0105), (500, 0.0041),
    (700, 0.0016), (1_200, 0.00035), (2_500, 0.00005), (6_000, 0.000006), (17_481, 0.0000004),
)  # fmt: skip

# The shape of the other citation graph, stretched to the mean of 29.1 that follows from the
# published sizes. The maximum, 251,471, is recalled and not checked against the original. See
# docs/twins.md.
_PAPERS: Survival = (
    (1, 1.0), (2, 0.945), (4, 0.83), (6, 0.73), (9, 0.63), (13, 0.53), (17, 0.445), (21, 0.37),
    (26, 0.311), (34, 0.226), (43, 0.168), (60, 0.0985), (85, 0.05), (107, 0.033), (136, 0.0218),
    (213, 0.01104), (340, 0.00517), (545, 0.00258), (850, 0.00128), (1_490, 0.00062),
    (3_200, 0.000171), (6_400, 0.00005), (20_000, 0.000005), (60_000, 0.0000005),
    (251_471, 0.000000009),
)  # fmt: skip

# A power law of exponent 1.6.
_SMALL: Survival = (
    (6, 1.0), (8, 0.631), (12, 0.330), (16, 0.208), (24, 0.109), (48, 0.036), (96, 0.0118),
    (192, 0.0039), (200, 0.0036),
)  # fmt: skip


@dataclass(frozen=True)
class Preset:
    """Size and character of a twin.

    Parameters
    ----------
    num_nodes, num_features, num_classes : int
    num_pairs : int
        Undirected edges, each of which is stored both ways.
    split_sizes : (int, int, int)
        Training, validation and test nodes. Nodes in none of them have no label.
    class_offset : float
        Class ``c`` gets a share of nodes in proportion to ``1 / (c + class_offset)``.
    survival : Survival
        Of the degrees, up to a common factor that gives ``num_pairs``.
    community_size : int
        Mean number of nodes.
    community_share, class_share : float
        Shares of edges drawn within a community, and within a class; the others go anywhere.
    feature_signal : float
        Distance of a class's mean from the origin, where the noise has deviation 1 in each
        feature.
    surplus : float
        Share of edges drawn in addition, since duplicates are dropped.
    """

    num_nodes: int
    num_pairs: int
    num_features: int
    num_classes: int
    split_sizes: tuple[int, int, int]
    class_offset: float
    survival: Survival
    community_size: int
    community_share: float
    class_share: float
    feature_signal: float
    surplus: float

    def scaled(self, fraction: float) -> Preset:
        """Return the preset with nodes, edges and split sizes times a fraction."""
        if fraction == 1:
            return self
        num_nodes = round(self.num_nodes * fraction)
        train, valid, test = (round(size * fraction) for size in self.split_sizes)
        if sum(self.split_sizes) == self.num_nodes:  # all have labels, after rounding too
            test = num_nodes - train - valid
        return replace(
            self,
            num_nodes=num_nodes,
            num_pairs=round(self.num_pairs * fraction),
            split_sizes=(train, valid, test),
        )

    def class_starts(self) -> npt.NDArray[np.int64]:
        """Return where each class begins if nodes are in the order of classes, and the end."""
        weights = 1 / (np.arange(self.num_classes) + self.class_offset)
        running = np.concatenate([[0.0], np.cumsum(weights)])
        starts: npt.NDArray[np.float64] = np.rint(running / running[-1] * self.num_nodes)
        return starts.astype(np.int64)

    def degree_steps(self) -> npt.NDArray[np.uint32]:
        """Return for each degree from the second on: P(degree is less), in units of 2**-32.

        Between two points of ``survival`` its inverse is interpolated, which makes a tail fall
        like a power. No degree is above a quarter of the number of nodes.
        """
        columns = zip(*self.survival, strict=True)
        degree, share = (np.array(column, np.float64) for column in columns)
        last = int(min(degree[-1], max(self.num_nodes // 4, degree[0])))
        wanted = np.arange(int(degree[0]) + 1, last + 1)
        # Not np.interp, whose compiled loop may round otherwise on another processor.
        left = np.minimum(np.searchsorted(degree, wanted, side="right"), len(degree) - 1) - 1
        part = (wanted - degree[left]) / (degree[left + 1] - degree[left])
        inverse = 1 / share[left] + part * (1 / share[left + 1] - 1 / share[left])
        steps: npt.NDArray[np.float64] = np.floor((1 - 1 / inverse) * 2.0**32)
        return steps.astype(np.uint32)


PRESETS = {
    "tiny": Preset(
        1_000, 8_000, 32, 8, (600, 200, 200), 3.5, _SMALL, 64, 0.15, 0.35, 1.8, 0.16,
    ),
    "small": Preset(
        20_000, 200_000, 64, 16, (12_000, 4_000, 4_000), 7.5, _SMALL, 256, 0.25, 0.25, 1.6, 0.05,
    ),
    "arxiv": Preset(
        169_343, 1_157_799, 128, 40, (90_941, 29_799, 48_603), 2.0, _ARXIV, 256, 0.40, 0.28, 1.0,
        0.07,
    ),
    "products": Preset(
        2_449_029, 61_859_140, 100, 47, (196_615, 39_323, 2_213_091), 0.8, _PRODUCTS, 1_024, 0.50,
        0.29, 0.8, 0.05,
    ),
    "papers100M": Preset(
        111_059_956, 1_614_062_356, 128, 172, (1_207_179, 125_265, 214_338), 4.0, _PAPERS, 512,
        0.40, 0.20, 1.4, 0.05,
    ),
}  # fmt: skip
