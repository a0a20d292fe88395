"""Examples sorted once, so that every metric of a resample costs a few passes over one array of counts.

A bootstrap resample of N examples is N draws with replacement: a count per example. Sorted by confidence, the counts
and the errors are summed up once; bins, equal-mass bins and the smoothing grid are then runs of neighbouring examples,
whose sums are differences, and the risk at every coverage is a quotient of the two running sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from singleshot.common.checks import check_size
from singleshot.metrics.binning import bin_index
from singleshot.metrics.ece_estimators import GRID, BinSums, equal_mass_index, grid_cell
from singleshot.metrics.examples import Examples

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SortedExamples:
    """Examples from the most to the least confident, cut into cells: runs with the same bin in every binning."""

    order: Ints  # (N,) where each one stood before
    confidence: Array
    wrong: Ints  # 1 where the prediction is wrong
    nll: Array  # infinite ones set to 0, and listed in
    infinite_nll: Ints
    brier: Array
    ties: Ints  # the last example of each group of equal confidence
    cells: Ints  # the first example of each cell
    cell_ends: Ints  # the last one
    width_bins: Ints  # the first cell of each equal-width bin that holds examples
    mass_bins: Ints  # the first cell of each equal-mass bin that holds examples
    grid_bins: Ints  # the first cell of each grid cell that holds examples
    grid_cells: Ints  # which grid cell that is

    def __len__(self) -> int:
        return len(self.order)


class ResampleSums(NamedTuple):
    """What is known of one resample, or with a leading axis of many."""

    cells: BinSums
    nll: Array
    brier: Array
    aurc: Array


def sort_examples(examples: Examples, bins: int) -> SortedExamples:
    """Sort the examples and cut them into cells."""
    confidence = examples.confidence.double().numpy()
    order = np.argsort(-confidence, kind="stable")
    confidence = confidence[order]
    nll = examples.nll.double().numpy()[order]
    binnings = (
        bin_index(examples.confidence, bins).numpy()[order],  # in their own dtype, as `Calibration` does
        equal_mass_index(confidence, bins),
        grid_cell(confidence),
    )
    starts = [_starts(index) for index in binnings]
    cells = np.unique(np.concatenate(starts))
    width_bins, mass_bins, grid_bins = (np.searchsorted(cells, start) for start in starts)
    return SortedExamples(
        order=order,
        confidence=confidence,
        wrong=1 - examples.correct.numpy()[order].astype(np.int64),
        nll=np.where(np.isinf(nll), 0, nll),
        infinite_nll=np.flatnonzero(np.isinf(nll)),
        brier=examples.brier.double().numpy()[order],
        ties=np.append(_starts(confidence)[1:], len(order)) - 1,
        cells=cells,
        cell_ends=np.append(cells[1:], len(order)) - 1,
        width_bins=width_bins,
        mass_bins=mass_bins,
        grid_bins=grid_bins,
        grid_cells=binnings[2][starts[2]],
    )


def resample(sorted_examples: SortedExamples, counts: Ints) -> ResampleSums:
    """The sums of a resample in which each of the sorted examples is so many times."""
    table = sorted_examples
    seen = np.cumsum(counts)
    errors = np.cumsum(counts * table.wrong)
    count, wrong = (np.diff(sums.take(table.cell_ends), prepend=0) for sums in (seen, errors))
    weights = counts.astype(np.float64)  # once: products of integers and floats would do so each time
    nll = float(weights @ table.nll) / len(table)
    if len(table.infinite_nll) and counts[table.infinite_nll].any():
        nll = np.inf
    brier = float(weights @ table.brier) / len(table)
    weights *= table.confidence
    return ResampleSums(
        cells=BinSums(count.astype(float), (count - wrong).astype(float), np.add.reduceat(weights, table.cells)),
        nll=np.asarray(nll),
        brier=np.asarray(brier),
        aurc=np.asarray(area_under_risk(seen, errors, table.ties)),
    )


def area_under_risk(seen: Ints, errors: Ints, ties: Ints) -> float:
    """Σ over distinct confidences of their share of the examples times the risk of accepting down to them."""
    if len(ties) < len(seen):
        seen, errors = seen.take(ties), errors.take(ties)
    first = int(np.searchsorted(seen, 1))  # before the first one that was drawn, nothing is accepted
    risk = errors[first:] / seen[first:]
    # Σ (seen_i − seen_(i−1)) risk_i, the difference moved from the one to the other
    total = int(seen[-1])
    return float(total * risk[-1] - seen[first:-1] @ (risk[1:] - risk[:-1])) / total


def whole(sorted_examples: SortedExamples) -> ResampleSums:
    """The sums of the examples themselves."""
    return resample(sorted_examples, np.ones(len(sorted_examples), dtype=np.int64))


def draw_counts(examples: int, replicates: int, seed: int) -> Iterator[Ints]:
    """How often each example is in each of the bootstrap resamples: multinomial, exactly."""
    generator = np.random.Generator(np.random.SFC64(seed))
    for _ in range(replicates):
        yield np.bincount(generator.integers(0, examples, examples), minlength=examples)


def stack(resamples: list[ResampleSums]) -> ResampleSums:
    """Many resamples as one, with a leading axis."""
    cells = (np.stack([getattr(one.cells, name) for one in resamples]) for name in BinSums._fields)
    means = (np.stack([getattr(one, name) for one in resamples]) for name in ("nll", "brier", "aurc"))
    return ResampleSums(BinSums(*cells), *means)


def binned(cells: BinSums, starts: Ints) -> BinSums:
    """The sums of cells (..., cells), added up from each of the starts to the next."""
    return BinSums(*(np.add.reduceat(values, starts, axis=-1) for values in cells))


def on_grid(cells: BinSums, table: SortedExamples) -> BinSums:
    """The sums of cells on the smoothing grid (..., GRID)."""
    found = binned(cells, table.grid_bins)
    grids = tuple(np.zeros((*values.shape[:-1], GRID)) for values in found)
    for grid, values in zip(grids, found, strict=True):
        grid[..., table.grid_cells] = values
    return BinSums(*grids)


def _starts(sorted_values: NDArray[np.float64] | Ints) -> Ints:
    """Where each run of equal values begins."""
    return np.flatnonzero(np.append(True, sorted_values[1:] != sorted_values[:-1]))


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
