"""What is known of the data sets with a name. May import: other modules of datasets.

Sizes of the OGB sets are those that OGB publishes (https://ogb.stanford.edu/docs/nodeprop/), with
edges as listed in its files, before reversed ones are added.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from salient.datasets.ogb_files import OGB_SETS
from salient.datasets.store_manifest import MANIFEST
from salient.datasets.twin_presets import PRESETS

_PLANETOID = "Yang et al., ICML 2016, arXiv 1603.08861"
_OGB = "Hu et al., NeurIPS 2020, arXiv 2005.00687"
_MADE = "made on the spot"


@dataclass(frozen=True)
class CatalogueEntry:
    """A data set that :func:`salient.datasets.load_dataset` knows by name.

    Parameters
    ----------
    name : str
    num_nodes, num_edges, num_features, num_classes : int
    download : str
        Size of what has to be fetched.
    licence, citation : str
    raw_folder : str
        Where its files are kept, below the root; empty where it is made on the spot.
    """

    name: str
    num_nodes: int
    num_edges: int
    num_features: int
    num_classes: int
    download: str
    licence: str
    citation: str
    raw_folder: str = ""

    def state(self, root: Path) -> str:
        """Return in a word what is there of it below a root."""
        if (root / self.name / MANIFEST).is_file():
            return "prepared"
        if self.raw_folder and (root / self.raw_folder).is_dir():
            return "fetched"
        return "no" if self.raw_folder else "made when used"


CATALOGUE = (
    CatalogueEntry(
        "pubmed", 19_717, 88_648, 500, 3, "14 MB", "MIT", _PLANETOID, "planetoid/raw/pubmed"
    ),
    CatalogueEntry(
        "citeseer", 3_327, 9_104, 3_703, 6, "14 MB", "MIT", _PLANETOID, "planetoid/raw/citeseer"
    ),
    CatalogueEntry(
        "cora", 2_708, 10_556, 1_433, 7, "14 MB", "MIT", _PLANETOID, "planetoid/raw/cora"
    ),
    *(
        CatalogueEntry(
            f"synthetic:{preset}",
            shape.num_nodes,
            2 * shape.num_pairs,
            shape.num_features,
            shape.num_classes,
            "none",
            "none needed",
            _MADE,
        )
        for preset, shape in PRESETS.items()
    ),
    *(
        CatalogueEntry(
            name,
            about.num_nodes,
            about.num_edges,
            num_features,
            about.num_classes,
            f"{about.download_bytes / 1e9:.2g} GB",
            about.licence,
            _OGB,
            f"ogb/{about.folder}",
        )
        for (name, about), num_features in zip(OGB_SETS.items(), (128, 100, 128), strict=True)
    ),
)  # fmt: skip
