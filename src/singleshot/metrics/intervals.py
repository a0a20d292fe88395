"""Confidence intervals of the metrics: the bootstrap, and Wilson's interval of a proportion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from singleshot.common.checks import check_range
from singleshot.metrics.binning import Array
from singleshot.metrics.estimates import BIASED_UP, Estimator
from singleshot.metrics.examples import Examples


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval and standard error."""

    estimate: float
    low: float
    high: float
    standard_error: float

    def __str__(self) -> str:
        return f"{self.estimate:.4g} [{self.low:.4g}, {self.high:.4g}]"


def bootstrap(
    examples: Examples,
    *,
    replicates: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    bins: int = 20,
    groups: int | None = None,
) -> dict[str, Interval]:
    """Compute every metric with its bootstrap confidence interval.

    Sampling noise biases calibration errors upwards, and resampling adds the same bias again, so percentile intervals
    of an ECE lie far too high. The intervals of ``ece``, ``debiased_ece``, ``adaptive_ece``, ``smooth_ece``,
    ``overconfidence`` and ``underconfidence`` are reflected bootstrap intervals around the debiased error. They are
    clipped at 0 and start at 0 if a share of 1 − level or more of simulated calibrated classifiers has as large an
    error. They cover the error without bias. ``nll``, ``brier``, ``mean_confidence``, ``aurc`` and ``excess_aurc`` have
    percentile intervals, ``accuracy`` has Wilson's. An interval that does not contain its estimate, because noise has
    lifted a calibration error above the true one, is extended to the estimate.

    Simulations with 500 to 2,000 examples (benchmarks/interval_coverage.py, docs/performance.md) give these coverages
    of 95 % intervals: 92–97 % for the means, ``accuracy``, ``aurc``, ``excess_aurc``, and for the ECEs of most
    calibrated or overconfident classifiers (91 % at worst); about 91 % for slight ``overconfidence``; about 90 % for
    calibration errors if the gaps are small and change sign from bin to bin. The interval of ``rmsce`` is wider than
    necessary near perfect calibration. That of ``mce`` has no guarantee, because the smallest bin decides it. With an
    infinite NLL the interval of ``nll`` is NaN.

    Args:
        examples: independent examples.
        replicates: number of resamples; the time grows with examples × replicates.
        level: coverage of the intervals.
        seed: the same seed gives the same intervals.
        bins: bins of the binned errors.
        groups: resample this many random groups of examples instead of single examples. 1,000 groups take seconds for
            a million examples, and the width of an interval varies a little more.

    >>> import torch
    >>> probs = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8]])
    >>> intervals = bootstrap(Examples.of(probs=probs, labels=torch.tensor([0, 1, 1, 1])), replicates=200)
    >>> print(intervals["accuracy"])
    0.75 [0.3006, 0.9544]
    """
    check_range("level", level, "(0, 1)")
    estimator = Estimator(examples, bins)
    plain, centres, resampled = estimator.resample(replicates, seed, groups=groups)
    calibrated = estimator.if_calibrated(replicates, np.random.default_rng([seed, 1]))
    found: dict[str, Interval] = {}
    for name, values in resampled.items():
        if not np.isfinite(plain[name]):
            found[name] = Interval(plain[name], np.nan, np.nan, np.nan)
            continue
        low, high = outer_quantiles(values, level)
        if name in BIASED_UP:
            low, high = error_interval(plain[name], centres[name], values, calibrated[name], level)
        error = float(values.std(ddof=1))
        if name == "rmsce":
            low, high = float(np.sqrt(low)), float(np.sqrt(high))
            error = float(np.sqrt(np.maximum(values, 0)).std(ddof=1))
        if name == "accuracy":
            correct = round(plain["accuracy"] * len(examples))
            low, high = (float(bound) for bound in wilson_interval(correct, len(examples), level))
        if name == "mce":  # the largest gap is at least their mean
            low = max(low, found["ece"].low)
            high = max(low, high)
        found[name] = Interval(plain[name], min(low, plain[name]), max(high, plain[name]), error)
    return found


def error_interval(
    estimate: float, centre: float, values: Array, if_calibrated: Array, level: float
) -> tuple[float, float]:
    """Return the interval of a biased error from its unbiased resamples around an unbiased centre.

    It starts at 0 if the estimate is within the ``level`` quantile of the simulated calibrated classifiers.
    """
    low, high = (min(max(bound, 0.0), 1.0) for bound in around(centre, values, level, reflect=True))
    consistent = estimate <= np.quantile(if_calibrated, level) + 1e-12  # an error of 0 may differ by rounding
    return 0.0 if consistent else low, high


def around(centre: float, values: Array, level: float, *, reflect: bool) -> tuple[float, float]:
    """Return the centre plus the quantiles of the deviations of values from their mean, or minus them if reflected."""
    low, high = outer_quantiles(values - values.mean(), level)
    return (centre - high, centre - low) if reflect else (centre + low, centre + high)


def outer_quantiles(values: Array, level: float) -> tuple[float, float]:
    """Return the quantiles that leave out (1 − level) / 2 on each side, at ranks of R + 1 draws."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], method="weibull")
    return float(low), float(high)


def wilson_interval(successes: ArrayLike, counts: ArrayLike, level: float = 0.95) -> tuple[Array, Array]:
    """Return lower and upper bounds of proportions, for ``successes`` out of ``counts``, elementwise.

    These are the p with (p̂ − p)² ≤ z² p (1 − p) / n. They lie in [0, 1], also if all or none succeed. A count of 0
    gives NaN.

    >>> low, high = wilson_interval([0, 5, 10], [10, 10, 10])
    >>> low.round(3), high.round(3)
    (array([0.   , 0.237, 0.722]), array([0.278, 0.763, 1.   ]))
    """
    from scipy.special import ndtri

    check_range("level", level, "(0, 1)")
    try:
        k, n = np.broadcast_arrays(np.asarray(successes, np.float64), np.asarray(counts, np.float64))
    except (TypeError, ValueError) as error:
        raise type(error)(f"successes and counts must be numbers of one shape: {error}") from None
    valid = (k >= 0) & (k <= n)
    if not valid.all():
        bad = int(np.argmin(valid.ravel()))
        raise ValueError(f"successes must lie between 0 and counts: got {k.flat[bad]:g} of {n.flat[bad]:g} at {bad}")
    z2 = float(ndtri((1 + level) / 2)) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        share = k / n
        middle = (k + z2 / 2) / (n + z2)
        half = np.sqrt(z2) / (n + z2) * np.sqrt(k * (1 - share) + z2 / 4)
    # Without rounding errors the bounds for none and all are exactly 0 and 1.
    low = np.where(k == 0, 0.0, np.clip(middle - half, 0, 1))
    high = np.where(k == n, 1.0, np.clip(middle + half, 0, 1))
    return np.where(n == 0, np.nan, low), np.where(n == 0, np.nan, high)
