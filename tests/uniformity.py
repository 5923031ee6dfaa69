"""Statistical assertions about draws, each with its chance of a false alarm.

A correct sampler fails one of these with probability ``FALSE_ALARM`` for a seed chosen at random;
a test that makes several comparisons shares it out among them (Bonferroni). Seeds are fixed in the
tests, so that one that has passed keeps passing. May import: numpy, scipy.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

FALSE_ALARM = 5e-7

IntArray = npt.NDArray[np.int64]


def assert_no_repeats(positions: IntArray) -> None:
    ordered = np.sort(positions, axis=1)
    assert (ordered[:, 1:] > ordered[:, :-1]).all()


def assert_uniform(counts: IntArray, *, comparisons: int = 1, probabilities: Any = None) -> None:
    """Chi-square of counts against equal (or the given) probabilities; at least 5 expected each."""
    counts = np.asarray(counts).ravel()
    shares = np.full(counts.size, 1 / counts.size) if probabilities is None else probabilities
    expected = counts.sum() * np.asarray(shares)
    assert expected.min() >= 5
    chi_square = ((counts - expected) ** 2 / expected).sum()
    limit = stats.chi2.isf(FALSE_ALARM / comparisons, counts.size - 1)
    assert chi_square < limit, f"chi-square {chi_square:.1f}, limit {limit:.1f}"


def assert_equal_inclusion(positions: IntArray, degree: int) -> None:
    """Each position is kept equally often by draws without replacement.

    Inclusion of position j has variance p (1 - p), of two positions covariance
    -p (1 - p) / (degree - 1), with p = fanout / degree; so the sum below is chi-square
    distributed with degree - 1 degrees of freedom.
    """
    draws, fanout = positions.shape
    share = fanout / degree
    counts = np.bincount(positions.ravel(), minlength=degree)
    variance = draws * share * (1 - share) * degree / (degree - 1)
    chi_square = ((counts - draws * share) ** 2).sum() / variance
    limit = stats.chi2.isf(FALSE_ALARM, degree - 1)
    assert chi_square < limit, f"chi-square {chi_square:.1f}, limit {limit:.1f}"


def subset_counts(positions: IntArray, degree: int, size: int) -> IntArray:
    """Count each subset of [0, degree) of the given size among the rows."""
    number = {s: i for i, s in enumerate(itertools.combinations(range(degree), size))}
    rows = [number[tuple(row)] for row in np.sort(positions, axis=1).tolist()]
    return np.bincount(rows, minlength=len(number))


def left_out(positions: IntArray, degree: int) -> IntArray:
    """Return the positions that were not drawn, shape (draws, degree - fanout)."""
    kept = np.zeros((positions.shape[0], degree), bool)
    np.put_along_axis(kept, positions, True, axis=1)
    return np.nonzero(~kept)[1].reshape(positions.shape[0], -1)
