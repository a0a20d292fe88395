"""Every metric of the examples and of their resamples, with and without the bias from sampling noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from singleshot.metrics.binning import (
    BinSums,
    Gaps,
    coarse_kernel,
    debiased_error,
    debiased_overconfident_part,
    debiased_smooth_error,
    debiased_square_error,
    fixed_point_bandwidth,
    gaps_of,
    negated,
    overconfident_part,
    plain_error,
    smooth_error,
)
from singleshot.metrics.examples import Examples
from singleshot.metrics.resampling import ResampleSums, SortedExamples, binned, grid_residual, sort_examples, whole
from singleshot.metrics.selective import excess_over_oracle

Array = NDArray[np.float64]
GapErrors = Mapping[str, Callable[[Gaps], Array]]


def _largest_gap(gaps: Gaps) -> Array:
    return np.asarray(np.abs(gaps.gap).max(-1))


PLAIN_ERRORS: GapErrors = {
    "ece": plain_error,
    "debiased_ece": lambda gaps: np.maximum(debiased_error(gaps), 0),
    "adaptive_ece": plain_error,
    "mce": _largest_gap,
    "rmsce": lambda gaps: np.sqrt((gaps.share * gaps.gap**2).sum(-1)),
    "overconfidence": overconfident_part,
    "underconfidence": lambda gaps: overconfident_part(negated(gaps)),
}
UNBIASED_ERRORS: GapErrors = {
    "ece": debiased_error,
    "debiased_ece": debiased_error,
    "adaptive_ece": debiased_error,
    "mce": _largest_gap,
    "rmsce": debiased_square_error,
    "overconfidence": debiased_overconfident_part,
    "underconfidence": lambda gaps: debiased_overconfident_part(negated(gaps)),
}
BIASED_UP = (
    "ece",
    "debiased_ece",
    "adaptive_ece",
    "smooth_ece",
    "mce",
    "rmsce",
    "overconfidence",
    "underconfidence",
)
"""Errors that are 0 for perfect calibration and never negative, so that sampling noise alone makes them positive."""
METRICS = ("accuracy", *BIASED_UP, "nll", "brier", "mean_confidence", "aurc", "excess_aurc")
HIGHER_IS_BETTER = ("accuracy",)


@dataclass(frozen=True, eq=False)
class Estimator:
    """Computes the metrics of examples and of their resamples.

    The edges of the equal-mass bins and the bandwidth of the smooth ECE are chosen once, from all examples.
    """

    table: SortedExamples
    bandwidth: float

    @classmethod
    def of(cls, table: SortedExamples, sums: ResampleSums) -> Estimator:
        """Build the estimator of these examples from their own sums."""
        return cls(table, fixed_point_bandwidth(grid_residual(sums.cells, table), len(table)))

    def metrics(self, sums: ResampleSums, names: Sequence[str] = METRICS) -> dict[str, Array]:
        """Compute metrics by their plain formulas, of one resample or, with a leading axis, of many."""
        return self._compute(sums, names, PLAIN_ERRORS, self._smooth_error)

    def unbiased(self, sums: ResampleSums, names: Sequence[str] = METRICS) -> dict[str, Array]:
        """Compute metrics without the bias from sampling noise, for intervals.

        Binned and smooth errors are debiased and not clipped at 0. ``rmsce`` is squared, where the correction is exact.
        ``mce`` is not corrected here, but in `centres`.
        """
        return self._compute(sums, names, UNBIASED_ERRORS, self._debiased_smooth_error)

    def _compute(
        self, sums: ResampleSums, names: Sequence[str], errors: GapErrors, smooth: Callable[[BinSums], Array]
    ) -> dict[str, Array]:
        total, correct = len(self.table), sums.cells.correct.sum(-1)
        equal_width, equal_mass = (
            gaps_of(binned(sums.cells, starts)) for starts in (self.table.width_bins, self.table.mass_bins)
        )
        formulas: dict[str, Callable[[], Array]] = {
            "accuracy": lambda: correct / total,
            "smooth_ece": lambda: smooth(sums.cells),
            "nll": lambda: sums.nll,
            "brier": lambda: sums.brier,
            "mean_confidence": lambda: sums.cells.confidence.sum(-1) / total,
            "aurc": lambda: sums.aurc,
            "excess_aurc": lambda: excess_over_oracle(sums.aurc, correct, total),
        }
        return {
            name: errors[name](equal_mass if name == "adaptive_ece" else equal_width)
            if name in errors
            else formulas[name]()
            for name in names
        }

    def _smooth_error(self, cells: BinSums) -> Array:
        return smooth_error(grid_residual(cells, self.table), len(self.table), self.bandwidth)

    def _debiased_smooth_error(self, cells: BinSums) -> Array:
        return debiased_smooth_error(binned(cells, self.table.grid_bins), self.table.grid_cells, self._kernel)

    @cached_property
    def _kernel(self) -> Array:
        return coarse_kernel(self.bandwidth)

    def centres(self, sums: ResampleSums, resampled: dict[str, Array]) -> dict[str, float]:
        """Return the centre of each metric's interval; ``resampled`` holds the unbiased metrics of the resamples."""
        found = {name: float(value) for name, value in self.unbiased(sums, tuple(resampled)).items()}
        if "mce" in found:  # the bias of the resamples estimates the bias of the examples
            found["mce"] = 2 * found["mce"] - float(resampled["mce"].mean())
        return found

    def if_calibrated(self, sums: ResampleSums, replicates: int, generator: np.random.Generator) -> dict[str, Array]:
        """Simulate the errors of perfectly calibrated classifiers with the confidences of these examples.

        The number of hits in a cell is binomial at its mean confidence; cells are at most 1/1024 wide.
        """
        count, _, confidence = sums.cells
        chance = np.clip(confidence / count, 0, 1)
        correct = generator.binomial(count.astype(np.int64), chance, size=(replicates, len(count))).astype(float)
        cells = BinSums(np.broadcast_to(count, correct.shape), correct, np.broadcast_to(confidence, correct.shape))
        return self.metrics(sums._replace(cells=cells), BIASED_UP)


def debiased_ece(examples: Examples, bins: int = 20) -> float:
    """The ECE of equal-width bins minus its expected bias from sampling noise, at least 0.

    For perfect calibration about a third of the plain ECE's bias remains (benchmarks/interval_coverage.py), because of
    the clipping at 0 and because some of the noise is taken for true gaps.
    """
    table = sort_examples(examples, bins)
    return max(float(debiased_error(gaps_of(binned(whole(table).cells, table.width_bins)))), 0.0)


def adaptive_ece(examples: Examples, bins: int = 20) -> float:
    """The ECE of equal-mass bins, which hold about the same number of examples each."""
    table = sort_examples(examples, bins)
    return float(plain_error(gaps_of(binned(whole(table).cells, table.mass_bins))))


def smooth_ece(examples: Examples, bandwidth: float | None = None) -> float:
    """The smooth ECE at this bandwidth; by default at the bandwidth that equals the error."""
    if bandwidth is not None and not 0 < bandwidth <= 1:
        raise ValueError(f"bandwidth must lie in (0, 1], or be None to choose it automatically, got {bandwidth}")
    table = sort_examples(examples, bins=1)
    residual = grid_residual(whole(table).cells, table)
    chosen = fixed_point_bandwidth(residual, len(table)) if bandwidth is None else bandwidth
    return float(smooth_error(residual, len(table), chosen))
