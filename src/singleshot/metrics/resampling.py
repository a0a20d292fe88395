"""Bootstrap resamples of examples that are sorted once, so that each metric of a resample is a few array operations.

A resample is a count per example. In order of confidence, every bin, equal-mass bin and grid cell is a run of
neighbouring examples, whose sums are differences of cumulative sums. The risk at every coverage is a ratio of two of
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from singleshot.common.checks import check_size
from singleshot.metrics.binning import GRID, Array, BinSums, bin_index, equal_mass_index
from singleshot.metrics.examples import Examples

Ints = NDArray[np.int64]

GROUPS = 1000
"""The default number of groups; the width of an interval then varies by about 1 / √(2 · groups) = 2 %."""
BLOCK = 250
"""Resamples held at a time, about 50 MB."""


class SortedExamples:
    """Examples in decreasing order of confidence, cut into cells: runs that share their bin in every binning."""

    def __init__(self, examples: Examples, bins: int) -> None:
        check_size("bins", bins, least=1)
        key = examples.descending()
        confidence = examples.confidence.double().numpy()
        self.order: Ints = np.lexsort((-confidence, key))  # original positions
        key, self.confidence = key[self.order], confidence[self.order]
        self.wrong = 1 - examples.correct.numpy()[self.order].astype(np.int64)
        self.brier = examples.brier.double().numpy()[self.order]
        nll = examples.nll.double().numpy()[self.order]
        self.nll = np.where(np.isinf(nll), 0, nll)  # infinite values replaced by 0
        self.infinite_nll = np.flatnonzero(np.isinf(nll))
        self.ties = np.append(_starts(key)[1:], len(nll)) - 1  # last example of each confidence
        binnings = (
            bin_index(examples.confidence, bins).numpy()[self.order],  # in their dtype, like `Calibration`
            equal_mass_index(-key, bins),
            np.clip((self.confidence * GRID).astype(np.int64), 0, GRID - 1),
        )
        starts = [_starts(index) for index in binnings]
        self.cells = np.unique(np.concatenate(starts))  # first example of each cell
        self.cell_ends = np.append(self.cells[1:], len(nll)) - 1  # last example of each cell
        # The first cell of each non-empty bin, for equal-width bins, equal-mass bins and the grid of the smooth ECE.
        self.width_bins, self.mass_bins, self.grid_bins = (np.searchsorted(self.cells, start) for start in starts)
        self.grid_cells = binnings[2][starts[2]]  # the index of each non-empty grid cell

    def __len__(self) -> int:
        return len(self.order)


class ResampleSums(NamedTuple):
    """Sums of the cells (cells,) and means of one resample; a leading axis for many resamples."""

    size: Array
    correct: Array
    confidence: Array
    nll: Array
    brier: Array
    aurc: Array

    @property
    def cells(self) -> BinSums:
        """The sums of the cells."""
        return BinSums(self.size, self.correct, self.confidence)


def resample(table: SortedExamples, counts: Ints) -> ResampleSums:
    """Compute the sums of a resample from the count of each sorted example."""
    seen = np.cumsum(counts)
    errors = np.cumsum(counts * table.wrong)
    count, wrong = (np.diff(sums.take(table.cell_ends), prepend=0) for sums in (seen, errors))
    weights = counts.astype(np.float64)  # converted once rather than in each product
    nll = float(weights @ table.nll) / len(table)
    if len(table.infinite_nll) and counts[table.infinite_nll].any():
        nll = np.inf
    brier = float(weights @ table.brier) / len(table)
    weights *= table.confidence
    return ResampleSums(
        size=count.astype(float),
        correct=(count - wrong).astype(float),
        confidence=np.add.reduceat(weights, table.cells),
        nll=np.asarray(nll),
        brier=np.asarray(brier),
        aurc=np.asarray(_aurc_of_examples(seen, errors, table.ties)),
    )


def whole(table: SortedExamples) -> ResampleSums:
    """Compute the sums of the examples themselves."""
    return resample(table, np.ones(len(table), dtype=np.int64))


def draw_counts(examples: int, replicates: int, seed: int) -> Iterator[Ints]:
    """Draw the multinomial counts of the examples in each bootstrap resample."""
    generator = np.random.Generator(np.random.SFC64(seed))
    for _ in range(replicates):
        yield np.bincount(generator.integers(0, examples, examples), minlength=examples)


def draw_resamples(
    table: SortedExamples, replicates: int, seed: int, *, groups: int | None = None, by_position: bool = False
) -> Iterator[ResampleSums]:
    """Draw bootstrap resamples of the examples, or of random groups of them, in blocks.

    With ``by_position``, a seed draws the same examples for every classifier, as paired comparisons require.
    """
    if groups is not None:
        drawn = resample_groups(table, groups, replicates, seed)
        for first in range(0, replicates, BLOCK):
            yield ResampleSums(*(values[first : first + BLOCK] for values in drawn))
        return
    draws = draw_counts(len(table), replicates, seed)
    resamples = (resample(table, counts[table.order] if by_position else counts) for counts in draws)
    while block := list(islice(resamples, BLOCK)):
        yield ResampleSums(*map(np.stack, zip(*block, strict=True)))


def resample_groups(table: SortedExamples, groups: int, replicates: int, seed: int) -> ResampleSums:
    """Resample random groups of nearly equal size; a seed draws the same groups for every classifier.

    The AURC treats the examples of a cell (confidences at most 1/1024 apart) as ties. The error of that is known for
    all examples and subtracted.
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
    drawn = count.sum(1)  # group sizes differ by one example, so the sizes of resamples differ
    nll, brier = (
        times @ np.bincount(group, values, groups) / drawn if not infinite else np.full(replicates, np.inf)
        for values, infinite in ((table.nll, len(table.infinite_nll)), (table.brier, 0))
    )
    own = whole(table)
    aurc = _aurc_of_cells(count, correct) + (own.aurc - _aurc_of_cells(own.size, own.correct))
    return ResampleSums(count, correct, confidence, nll, brier, aurc)


def binned(cells: BinSums, starts: Ints) -> BinSums:
    """Add up the sums of cells (..., cells) from each start to the next."""
    return BinSums(*(np.add.reduceat(values, starts, axis=-1) for values in cells))


def grid_residual(cells: BinSums, table: SortedExamples) -> Array:
    """Return the sums of confidence − correct on the smoothing grid (..., GRID)."""
    sums = binned(cells, table.grid_bins)
    residual = np.zeros((*sums.size.shape[:-1], GRID))
    residual[..., table.grid_cells] = sums.confidence - sums.correct
    return residual


def _aurc_of_examples(seen: Ints, errors: Ints, ties: Ints) -> float:
    """Σ over distinct confidences of their share of the examples × the risk of accepting down to them."""
    if len(ties) < len(seen):
        seen, errors = seen.take(ties), errors.take(ties)
    first = int(np.searchsorted(seen, 1))  # nothing is accepted before the first example of the resample
    risk = errors[first:] / seen[first:]
    # Σ (seen_i − seen_(i−1)) risk_i, summed by parts
    total = int(seen[-1])
    return float(total * risk[-1] - seen[first:-1] @ (risk[1:] - risk[:-1])) / total


def _aurc_of_cells(count: Array, correct: Array) -> Array:
    """Σ over cells (..., cells) of their share of the examples × the risk of accepting down to them."""
    seen, wrong = np.cumsum(count, -1), np.cumsum(count - correct, -1)
    return np.asarray((count * wrong / np.maximum(seen, 1)).sum(-1) / seen[..., -1])


def _starts(sorted_values: Array | Ints) -> Ints:
    """Return the position at which each run of equal values begins."""
    return np.flatnonzero(np.append(True, sorted_values[1:] != sorted_values[:-1]))
