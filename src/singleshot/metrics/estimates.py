"""Every metric of a resample, and the value it is an estimate of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from singleshot.common.checks import check_size
from singleshot.metrics.ece_estimators import (
    BinSums,
    Gaps,
    coarse_kernel,
    debiased_error,
    debiased_overconfident_part,
    debiased_smooth_error,
    debiased_square_error,
    fixed_point_bandwidth,
    gaps_of,
    overconfident_part,
    plain_error,
    smooth_error,
    turned,
)
from singleshot.metrics.examples import Examples
from singleshot.metrics.resampling import ResampleSums, SortedExamples, binned, on_grid, sort_examples, whole
from singleshot.metrics.selective import excess_over_oracle

Array = NDArray[np.float64]

PUSHED_UP_BY_CHANCE = (
    "ece",
    "debiased_ece",
    "adaptive_ece",
    "smooth_ece",
    "mce",
    "rmsce",
    "overconfidence",
    "underconfidence",
)
"""Errors that are 0 if calibration is perfect and never below: noise alone makes them positive."""
METRICS = ("accuracy", *PUSHED_UP_BY_CHANCE, "nll", "brier", "mean_confidence", "aurc", "excess_aurc")
HIGHER_IS_BETTER = ("accuracy",)


@dataclass(frozen=True, eq=False)
class Estimator:
    """The metrics of these examples and of their resamples; what is chosen from the data is chosen once.

    The edges of the equal-mass bins and the bandwidth of the smooth ECE stay what they are for the whole: a resample
    tells how far chance moves the error of these bins and this kernel.
    """

    table: SortedExamples
    bandwidth: float

    @classmethod
    def of(cls, table: SortedExamples, sums: ResampleSums) -> Estimator:
        """The estimator for these examples, given their own sums."""
        grid = on_grid(sums.cells, table)
        return cls(table, fixed_point_bandwidth(grid.confidence - grid.correct, len(table)))

    def metrics(self, sums: ResampleSums, names: Sequence[str] = METRICS) -> dict[str, Array]:
        """These metrics of one resample, or with a leading axis of many, as the plain formulas have it."""
        widths, masses = self._gaps(sums)
        pushed: dict[str, Callable[[], Array]] = {
            "ece": lambda: plain_error(widths),
            "debiased_ece": lambda: np.maximum(debiased_error(widths), 0),
            "adaptive_ece": lambda: plain_error(masses),
            "smooth_ece": lambda: self._smooth_error(sums),
            "mce": lambda: np.asarray(np.abs(widths.gap).max(-1)),
            "rmsce": lambda: np.sqrt((widths.share * widths.gap**2).sum(-1)),
            "overconfidence": lambda: overconfident_part(widths),
            "underconfidence": lambda: overconfident_part(turned(widths)),
        }
        return self._chosen(names, pushed, sums)

    def unbiased(self, sums: ResampleSums, names: Sequence[str] = METRICS) -> dict[str, Array]:
        """These metrics as intervals are made: without the bias that chance gives them, and the RMS error squared.

        Binned and smooth errors lose what chance adds to an absolute value, and are not clipped at 0; the RMS error is
        corrected in its square, where the correction is exact. The MCE is as it is: see `centres`.
        """
        widths, masses = self._gaps(sums)
        pushed: dict[str, Callable[[], Array]] = {
            "ece": lambda: debiased_error(widths),
            "debiased_ece": lambda: debiased_error(widths),
            "adaptive_ece": lambda: debiased_error(masses),
            "smooth_ece": lambda: debiased_smooth_error(
                binned(sums.cells, self.table.grid_bins), self.table.grid_cells, self._kernel
            ),
            "mce": lambda: np.asarray(np.abs(widths.gap).max(-1)),
            "rmsce": lambda: debiased_square_error(widths),
            "overconfidence": lambda: debiased_overconfident_part(widths),
            "underconfidence": lambda: debiased_overconfident_part(turned(widths)),
        }
        return self._chosen(names, pushed, sums)

    def _smooth_error(self, sums: ResampleSums) -> Array:
        grid = on_grid(sums.cells, self.table)
        return smooth_error(grid.confidence - grid.correct, len(self.table), self.bandwidth)

    @cached_property
    def _kernel(self) -> Array:
        return coarse_kernel(self.bandwidth)

    def _gaps(self, sums: ResampleSums) -> tuple[Gaps, Gaps]:
        widths, masses = (binned(sums.cells, starts) for starts in (self.table.width_bins, self.table.mass_bins))
        return gaps_of(widths), gaps_of(masses)

    def _chosen(
        self, names: Sequence[str], pushed: dict[str, Callable[[], Array]], sums: ResampleSums
    ) -> dict[str, Array]:
        """The metrics asked for: pushed ones as given, and those that chance moves up as much as down."""
        total, correct = len(self.table), sums.cells.correct.sum(-1)
        formulas: dict[str, Callable[[], Array]] = {
            **pushed,
            "accuracy": lambda: correct / total,
            "nll": lambda: sums.nll,
            "brier": lambda: sums.brier,
            "mean_confidence": lambda: sums.cells.confidence.sum(-1) / total,
            "aurc": lambda: sums.aurc,
            "excess_aurc": lambda: excess_over_oracle(sums.aurc, correct, total),
        }
        return {name: formulas[name]() for name in names}

    def centres(self, sums: ResampleSums, resampled: dict[str, Array]) -> dict[str, float]:
        """Around which value each metric's interval lies; ``resampled`` are the unbiased metrics of the resamples."""
        found = {name: float(value) for name, value in self.unbiased(sums, tuple(resampled)).items()}
        if "mce" in found:  # what resampling adds, chance added before
            found["mce"] = 2 * found["mce"] - float(resampled["mce"].mean())
        return found

    def if_calibrated(self, sums: ResampleSums, replicates: int, generator: np.random.Generator) -> dict[str, Array]:
        """The errors in imagined worlds where the confidences of these examples are exactly right.

        The right ones of a cell are binomial at its mean confidence. Within a cell, no wider than 1/1024, confidences
        are as good as equal.
        """
        count, _, confidence = sums.cells
        chance = np.clip(confidence / count, 0, 1)
        correct = generator.binomial(count.astype(np.int64), chance, size=(replicates, len(count))).astype(float)
        shape = correct.shape
        cells = BinSums(np.broadcast_to(count, shape), correct, np.broadcast_to(confidence, shape))
        return self.metrics(sums._replace(cells=cells), PUSHED_UP_BY_CHANCE)


def debiased_ece(examples: Examples, bins: int = 20) -> float:
    """The ECE of equal-width bins less what chance is expected to add; at least 0.

    Where calibration is perfect, a third of the plain ECE's bias remains (benchmarks/interval_coverage.py): clipping
    at 0 keeps what lies above and not what lies below, and some of the noise passes for true gaps.
    """
    table = sort_examples(examples, check_size("bins", bins, least=1))
    return max(float(debiased_error(gaps_of(binned(whole(table).cells, table.width_bins)))), 0.0)


def adaptive_ece(examples: Examples, bins: int = 20) -> float:
    """The ECE of equal-mass bins, as `equal_mass_index` cuts them."""
    table = sort_examples(examples, check_size("bins", bins, least=1))
    return float(plain_error(gaps_of(binned(whole(table).cells, table.mass_bins))))


def smooth_ece(examples: Examples, bandwidth: float | None = None) -> float:
    """The smooth ECE at this bandwidth, or at the one it equals."""
    if bandwidth is not None and not 0 < bandwidth <= 1:
        raise ValueError(f"bandwidth must lie in (0, 1], or be None for the one that fits, got {bandwidth}")
    table = sort_examples(examples, bins=1)
    grid = on_grid(whole(table).cells, table)
    residual = grid.confidence - grid.correct
    chosen = fixed_point_bandwidth(residual, len(table)) if bandwidth is None else bandwidth
    return float(smooth_error(residual, len(table), chosen))
