"""Every metric of the examples and of their resamples, with and without the bias from sampling noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
ErrorOfGaps = Callable[[Gaps], Array]


def _largest_gap(gaps: Gaps) -> Array:
    return np.asarray(np.abs(gaps.gap).max(-1))


ERRORS: dict[str, tuple[ErrorOfGaps, ErrorOfGaps]] = {
    "ece": (plain_error, debiased_error),
    "debiased_ece": (lambda gaps: np.maximum(debiased_error(gaps), 0), debiased_error),
    "adaptive_ece": (plain_error, debiased_error),
    "mce": (_largest_gap, _largest_gap),
    "rmsce": (lambda gaps: np.sqrt((gaps.share * gaps.gap**2).sum(-1)), debiased_square_error),
    "overconfidence": (overconfident_part, debiased_overconfident_part),
    "underconfidence": (
        lambda gaps: overconfident_part(negated(gaps)),
        lambda gaps: debiased_overconfident_part(negated(gaps)),
    ),
}
"""The plain and the unbiased formula of each binned error."""
BIASED_UP = (*list(ERRORS)[:3], "smooth_ece", *list(ERRORS)[3:])
"""Errors that are 0 for perfect calibration and never negative, so that sampling noise alone makes them positive."""
METRICS = ("accuracy", *BIASED_UP, "nll", "brier", "mean_confidence", "aurc", "excess_aurc")
HIGHER_IS_BETTER = ("accuracy",)


@dataclass(frozen=True, eq=False)
class Estimator:
    """Computes the metrics of examples and of their resamples.

    The edges of the equal-mass bins and the bandwidth of the smooth ECE are chosen once, from all examples.
    """

    table: SortedExamples
    own: ResampleSums  # of the examples themselves
    bandwidth: float

    @classmethod
    def of(cls, examples: Examples, bins: int = 20) -> Estimator:
        """Sort the examples and choose the bandwidth."""
        table = sort_examples(examples, bins)
        own = whole(table)
        return cls(table, own, fixed_point_bandwidth(grid_residual(own.cells, table), len(table)))

    def estimates(self, names: Sequence[str] = METRICS) -> dict[str, float]:
        """Compute the metrics of the examples by their plain formulas."""
        return {name: float(value) for name, value in self.metrics(self.own, names).items()}

    def metrics(
        self, sums: ResampleSums, names: Sequence[str] = METRICS, *, unbiased: bool = False
    ) -> dict[str, Array]:
        """Compute the metrics of one resample or, with a leading axis, of many.

        With ``unbiased``, for intervals, binned and smooth errors are debiased and not clipped at 0. ``rmsce`` is then
        squared, where the correction is exact, and ``mce`` is not corrected here, but in `centres`.
        """
        cells, table, total = sums.cells, self.table, len(self.table)
        correct = cells.correct.sum(-1)
        equal_width, equal_mass = (gaps_of(binned(cells, starts)) for starts in (table.width_bins, table.mass_bins))

        def smooth_ece_of_cells() -> Array:
            if unbiased:
                return debiased_smooth_error(binned(cells, table.grid_bins), table.grid_cells, self._kernel)
            return smooth_error(grid_residual(cells, table), total, self.bandwidth)

        others: dict[str, Callable[[], Array]] = {
            "accuracy": lambda: correct / total,
            "smooth_ece": smooth_ece_of_cells,
            "nll": lambda: sums.nll,
            "brier": lambda: sums.brier,
            "mean_confidence": lambda: cells.confidence.sum(-1) / total,
            "aurc": lambda: sums.aurc,
            "excess_aurc": lambda: excess_over_oracle(sums.aurc, correct, total),
        }
        found = {}
        for name in names:
            if name in ERRORS:
                gaps = equal_mass if name == "adaptive_ece" else equal_width
                found[name] = ERRORS[name][unbiased](gaps)
            else:
                found[name] = others[name]()
        return found

    @cached_property
    def _kernel(self) -> Array:
        return coarse_kernel(self.bandwidth)

    def centres(self, resampled: dict[str, Array]) -> dict[str, float]:
        """Return the centre of each metric's interval; ``resampled`` holds the unbiased metrics of the resamples."""
        unbiased = self.metrics(self.own, tuple(resampled), unbiased=True)
        found = {name: float(value) for name, value in unbiased.items()}
        if "mce" in found:  # the bias of the resamples estimates the bias of the examples
            found["mce"] = 2 * found["mce"] - float(resampled["mce"].mean())
        return found

    def if_calibrated(self, replicates: int, generator: np.random.Generator) -> dict[str, Array]:
        """Simulate the errors of perfectly calibrated classifiers with the confidences of these examples.

        The number of hits in a cell is binomial at its mean confidence; cells are at most 1/1024 wide.
        """
        count, _, confidence = self.own.cells
        chance = np.clip(confidence / count, 0, 1)
        correct = generator.binomial(count.astype(np.int64), chance, size=(replicates, len(count))).astype(float)
        cells = BinSums(np.broadcast_to(count, correct.shape), correct, np.broadcast_to(confidence, correct.shape))
        return self.metrics(self.own._replace(cells=cells), BIASED_UP)


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
