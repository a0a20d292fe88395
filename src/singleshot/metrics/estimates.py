"""Every metric of the examples and of their resamples, with and without the bias from sampling noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from singleshot.common.checks import check_range, check_size
from singleshot.metrics.binning import (
    Array,
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
    simulate_calibrated,
    smooth_error,
)
from singleshot.metrics.examples import Examples
from singleshot.metrics.resampling import ResampleSums, SortedExamples, binned, draw_resamples, grid_residual, whole
from singleshot.metrics.selective import excess_over_oracle

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


class Resampled(NamedTuple):
    """Metrics of a classifier and of its resamples."""

    plain: dict[str, float]
    centres: dict[str, float]  # without the bias from sampling noise
    values: dict[str, Array]  # one per resample, without that bias


class Estimator:
    """Computes the metrics of examples and of their resamples.

    The edges of the equal-mass bins and the bandwidth of the smooth ECE are chosen once, from all examples.
    """

    def __init__(self, examples: Examples, bins: int = 20) -> None:
        self.table = SortedExamples(examples, bins)
        self.own = whole(self.table)  # the sums of the examples themselves

    def estimates(self, names: Sequence[str] = METRICS) -> dict[str, float]:
        """Compute the metrics of the examples by their plain formulas."""
        return {name: float(value) for name, value in self.metrics(self.own, names).items()}

    def metrics(
        self, sums: ResampleSums, names: Sequence[str] = METRICS, *, unbiased: bool = False
    ) -> dict[str, Array]:
        """Compute the metrics of one resample or, with a leading axis, of many.

        With ``unbiased``, for intervals, binned and smooth errors are debiased and not clipped at 0. ``rmsce`` is then
        squared, where the correction is exact, and ``mce`` is corrected in `resample` instead.
        """
        cells, table, total = sums.cells, self.table, len(self.table)
        correct = cells.correct.sum(-1)
        equal_width, equal_mass = (gaps_of(binned(cells, starts)) for starts in (table.width_bins, table.mass_bins))
        others: dict[str, Callable[[], Array]] = {
            "accuracy": lambda: correct / total,
            "smooth_ece": lambda: self._smooth_ece(cells, unbiased=unbiased),
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

    def _smooth_ece(self, cells: BinSums, *, unbiased: bool) -> Array:
        if unbiased:
            return debiased_smooth_error(binned(cells, self.table.grid_bins), self.table.grid_cells, self._kernel)
        return smooth_error(grid_residual(cells, self.table), len(self.table), self.bandwidth)

    @cached_property
    def bandwidth(self) -> float:
        """The bandwidth at which the smooth ECE equals the bandwidth."""
        return fixed_point_bandwidth(grid_residual(self.own.cells, self.table), len(self.table))

    @cached_property
    def _kernel(self) -> Array:
        return coarse_kernel(self.bandwidth)

    def resample(
        self,
        replicates: int,
        seed: int,
        names: Sequence[str] = METRICS,
        *,
        groups: int | None = None,
        by_position: bool = False,
    ) -> Resampled:
        """Compute the metrics of bootstrap resamples, see `draw_resamples`."""
        check_size("replicates", replicates, least=2)
        draws = draw_resamples(self.table, replicates, seed, groups=groups, by_position=by_position)
        blocks = [self.metrics(block, names, unbiased=True) for block in draws]
        values = {name: np.concatenate([block[name] for block in blocks]) for name in names}
        centres = {name: float(value) for name, value in self.metrics(self.own, names, unbiased=True).items()}
        if "mce" in centres:  # the bias of the resamples estimates the bias of the examples
            centres["mce"] = 2 * centres["mce"] - float(values["mce"].mean())
        return Resampled(self.estimates(names), centres, values)

    def if_calibrated(self, replicates: int, generator: np.random.Generator) -> dict[str, Array]:
        """Simulate the errors of perfectly calibrated classifiers with the confidences of these examples."""
        return self.metrics(
            ResampleSums(*simulate_calibrated(self.own.cells, replicates, generator), *self.own[3:]), BIASED_UP
        )


def debiased_ece(examples: Examples, bins: int = 20) -> float:
    """The ECE of equal-width bins minus its expected bias from sampling noise, at least 0.

    For perfect calibration about a third of the plain ECE's bias remains (benchmarks/interval_coverage.py), because of
    the clipping at 0 and because some of the noise is attributed to true gaps.

    >>> import torch
    >>> examples = Examples.of(probs=torch.tensor([[0.9, 0.1]] * 20), labels=torch.tensor([0] * 15 + [1] * 5))
    >>> round(debiased_ece(examples), 3)  # the plain ECE is 0.15
    0.145
    """
    return Estimator(examples, bins).estimates(("debiased_ece",))["debiased_ece"]


def adaptive_ece(examples: Examples, bins: int = 20) -> float:
    """The ECE of equal-mass bins, which hold about the same number of examples each.

    >>> import torch
    >>> examples = Examples.of(probs=torch.tensor([[0.9, 0.1]] * 20), labels=torch.tensor([0] * 15 + [1] * 5))
    >>> round(adaptive_ece(examples, bins=2), 3)
    0.15
    """
    return Estimator(examples, bins).estimates(("adaptive_ece",))["adaptive_ece"]


def smooth_ece(examples: Examples, bandwidth: float | None = None) -> float:
    """The smooth ECE at this bandwidth; by default at the bandwidth that equals the error.

    >>> import torch
    >>> examples = Examples.of(probs=torch.tensor([[0.9, 0.1]] * 20), labels=torch.tensor([0] * 15 + [1] * 5))
    >>> round(smooth_ece(examples), 3)
    0.15
    """
    estimator = Estimator(examples, bins=1)
    if bandwidth is not None:
        check_range("bandwidth", bandwidth, "(0, 1]")
        estimator.bandwidth = bandwidth
    return estimator.estimates(("smooth_ece",))["smooth_ece"]
