"""Resamples of groups of examples, for so many examples that resampling each of them would take too long.

Sums over groups add up as examples do: a resample draws a thousand random groups with replacement, and its sums are one
product of matrices. What it costs does not grow with examples × replicates, only with each of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from singleshot.checks import check_size
from singleshot.metrics.debiased import BinSums
from singleshot.metrics.resampling import ResampleSums, SortedExamples, whole

Array = NDArray[np.float64]

GROUPS = 1000
"""So many that the width of an interval is known to some 2 %: 1 / √(2 · groups)."""


def resample_groups(table: SortedExamples, groups: int, replicates: int, seed: int) -> Iterator[ResampleSums]:
    """Resamples of random groups of nearly equal size; the same seed draws the same for every classifier.

    Inside a cell, a run of confidences at most 1/1024 apart, the area under the risk–coverage curve takes examples
    together; what that changes is known for the whole, and taken off.
    """
    if check_size("groups", groups, least=2) > len(table):
        raise ValueError(f"groups must be at most the number of examples, {len(table)}, got {groups}")
    generator = np.random.default_rng([seed, 2])
    group = (generator.permutation(len(table)) % groups)[table.order]
    times = generator.multinomial(groups, np.full(groups, 1 / groups), size=replicates).astype(np.float64)
    cells = len(table.cells)
    cell = np.repeat(np.arange(cells), np.diff(table.cells, append=len(table)))
    place = group * cells + cell
    count, correct, confidence = (
        times @ np.bincount(place, weights, groups * cells).reshape(groups, cells)
        for weights in (None, 1.0 - table.wrong, table.confidence)
    )
    drawn = count.sum(1)  # groups differ by an example, so that resamples differ in size
    nll, brier = (
        times @ np.bincount(group, values, groups) / drawn if not infinite else np.full(replicates, np.inf)
        for values, infinite in ((table.nll, len(table.infinite_nll)), (table.brier, 0))
    )
    own = whole(table)
    aurc = _area_under_risk(own.cells.size, own.cells.correct)
    areas = _area_under_risk(count, correct) + (own.aurc - aurc)
    for one in range(replicates):
        yield ResampleSums(
            BinSums(count[one], correct[one], confidence[one]),
            *(np.asarray(values[one]) for values in (nll, brier, areas)),
        )


def _area_under_risk(count: Array, correct: Array) -> Array:
    """Σ over cells (..., cells) of their share of the examples times the risk of accepting down to them."""
    seen, wrong = np.cumsum(count, -1), np.cumsum(count - correct, -1)
    return np.asarray((count * wrong / np.maximum(seen, 1)).sum(-1) / seen[..., -1])
