"""Significance tests: of a calibration error, and of the difference between two classifiers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from singleshot.common.checks import check_choice, check_range, check_size
from singleshot.metrics.estimates import BIASED_UP, METRICS, Estimator, Resampled
from singleshot.metrics.examples import Examples
from singleshot.metrics.intervals import around
from singleshot.metrics.resampling import SortedExamples

STATISTICS = ("ece", "total")


@dataclass(frozen=True)
class ConsistencyTest:
    """The observed error, its mean under perfect calibration, and the p-value of perfect calibration."""

    statistic: str
    observed: float
    expected: float
    p_value: float

    def __str__(self) -> str:
        return f"{self.statistic} {self.observed:.4g}, {self.expected:.4g} if calibrated, p = {self.p_value:.3g}"


def consistency_test(
    examples: Examples, *, statistic: str = "ece", replicates: int = 1000, seed: int = 0, bins: int = 20
) -> ConsistencyTest:
    """Test the hypothesis that each prediction is correct with the probability of its confidence.

    Correctness is simulated from the confidences. p = (1 + simulated errors at least as large) / (1 + replicates) is
    exact for any number of examples. A small p is evidence of miscalibration; a large p is no evidence of calibration.

    Args:
        examples: independent examples.
        statistic: "ece", the binned error, detects every kind of miscalibration. "total", |mean confidence − accuracy|,
            needs no bins and fewer examples, and detects overconfidence or underconfidence overall.
        replicates: number of simulations; the smallest possible p is 1 / (1 + replicates).
        seed: the same seed gives the same p-value.
        bins: equal-width bins of the ECE.

    >>> import torch
    >>> probs = torch.tensor([[0.99, 0.01]]).repeat(50, 1)
    >>> consistency_test(Examples.of(probs=probs, labels=torch.tensor([0, 1] * 25))).p_value < 0.01
    True
    """
    check_choice("statistic", statistic, STATISTICS)
    check_size("replicates", replicates, least=1)
    table = SortedExamples(examples, bins)
    starts = table.cells[table.width_bins] if statistic == "ece" else np.zeros(1, dtype=np.int64)
    confidence = np.add.reduceat(table.confidence, starts)
    generator = np.random.Generator(np.random.SFC64(seed))

    def error(correct: NDArray[np.bool_]) -> float:
        return float(np.abs(confidence - np.add.reduceat(correct.astype(np.int64), starts)).sum()) / len(table)

    observed = error(table.wrong == 0)
    simulated = np.array([error(generator.random(len(table)) < table.confidence) for _ in range(replicates)])
    as_large = int((simulated >= observed - 1e-12).sum())  # equal errors may differ by rounding
    return ConsistencyTest(statistic, observed, float(simulated.mean()), (1 + as_large) / (1 + replicates))


@dataclass(frozen=True)
class Comparison:
    """A metric of classifiers A and B, their difference A − B with its interval, and its p-value."""

    metric: str
    a: float
    b: float
    difference: float  # A − B without the bias from sampling noise; for ``rmsce`` of the squares
    low: float
    high: float
    p_value: float  # two-sided
    a_is_better: float  # share of resamples

    def __str__(self) -> str:
        interval = f"{self.difference:.4g} [{self.low:.4g}, {self.high:.4g}]"
        return f"{self.metric}: A {self.a:.4g}, B {self.b:.4g}, A − B {interval}, p = {self.p_value:.3g}"


def paired_bootstrap(
    a: Examples,
    b: Examples,
    metric: str = "ece",
    *,
    replicates: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    bins: int = 20,
) -> Comparison:
    """Compare the predictions of two classifiers for the same examples, in the same order, by a metric of `bootstrap`.

    The resampled differences are shifted to mean 0. p = (1 + those at least as far from 0 as the difference) /
    (1 + replicates). For ``rmsce`` the squared errors are compared, because near perfect calibration a square root
    would inflate the noise.

    >>> import torch
    >>> labels = torch.tensor([0, 1] * 50)
    >>> right = torch.nn.functional.one_hot(labels, 2).double()
    >>> a, b = (Examples.of(probs=right * (1 - 2 * e) + e, labels=labels) for e in (0.01, 0.3))
    >>> comparison = paired_bootstrap(a, b, "brier", replicates=200)
    >>> round(comparison.difference, 3), comparison.a_is_better
    (-0.18, 1.0)
    """
    check_choice("metric", metric, METRICS)
    check_range("level", level, "(0, 1)")
    if not a.has_labels_of(b):
        found = f"got {len(a)} and {len(b)} of them" if len(a) != len(b) else "but their labels differ"
        raise ValueError(f"a and b must be predictions of the same examples in the same order, {found}")
    first, second = (
        Estimator(examples, bins).resample(replicates, seed, (metric,), by_position=True) for examples in (a, b)
    )
    if not np.isfinite([first.plain[metric], second.plain[metric]]).all():
        raise ValueError(
            f"metric={metric!r} is infinite because a label has probability 0, and infinities cannot be compared; use "
            "logits= or another metric"
        )
    return compare_resampled(first, second, metric, level=level)


def compare_resampled(a: Resampled, b: Resampled, metric: str, *, level: float = 0.95) -> Comparison:
    """Compare two classifiers by a finite metric of the same resamples of the same examples."""
    difference = a.centres[metric] - b.centres[metric]
    differences = a.values[metric] - b.values[metric]
    low, high = around(difference, differences, level, reflect=metric in BIASED_UP)
    noise = differences - differences.mean()
    as_far = int((np.abs(noise) >= abs(difference) - 1e-15).sum())
    sign = -1 if metric == "accuracy" else 1
    return Comparison(
        metric=metric,
        a=a.plain[metric],
        b=b.plain[metric],
        difference=difference,
        low=low,
        high=high,
        p_value=(1 + as_far) / (1 + len(differences)),
        a_is_better=float((sign * (difference + noise) < 0).mean()),
    )
