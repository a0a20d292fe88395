"""How far chance may have moved each metric: bootstrap intervals, by exact resampling of the examples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from singleshot.common.checks import check_size
from singleshot.metrics.estimates import METRICS, PUSHED_UP_BY_CHANCE, Estimator
from singleshot.metrics.examples import Examples
from singleshot.metrics.resampling import (
    ResampleSums,
    draw_counts,
    resample,
    resample_groups,
    sort_examples,
    stack,
    whole,
)
from singleshot.metrics.wilson import check_level, wilson_interval

Array = NDArray[np.float64]
BLOCK = 250
"""Resamples whose cells are held at a time: some 50 MB."""


@dataclass(frozen=True)
class Interval:
    """An estimate, the interval that holds the true value with the level asked for, and the standard error."""

    estimate: float
    low: float
    high: float
    standard_error: float


def bootstrap(
    examples: Examples,
    *,
    replicates: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    bins: int = 20,
    groups: int | None = None,
) -> dict[str, Interval]:
    """Every metric with its interval, from resamples of the examples.

    Chance pushes calibration errors up, and resampling does so once more: the usual percentiles of an ECE lie far too
    high. Here the intervals of ``ece``, ``debiased_ece``, ``adaptive_ece``, ``smooth_ece``, ``overconfidence`` and
    ``underconfidence`` lie around the debiased error, with the reflected distances of the debiased resamples. They
    start at 0 where that would go below it, and where perfect calibration could look the same: a share of 1 − level or
    more of imagined calibrated worlds have so large an error. They are about the error without chance, so a plain ECE
    may lie above its own interval: that is its bias. Means (``nll``, ``brier``, ``mean_confidence``), ``aurc`` and
    ``excess_aurc`` have percentile intervals, and ``accuracy`` Wilson's, which is honest where all are right.

    Simulated with data sets of 500 to 2,000 (benchmarks/interval_coverage.py; docs/performance.md has every figure),
    95 % intervals of the means, ``accuracy``, ``aurc`` and ``excess_aurc`` hold the truth in 92–97 % of them, and so do
    those of the ECEs for most classifiers that are calibrated or overconfident throughout; single figures are as low
    as 91 %. Those of ``overconfidence`` hold it in some 91 % where that is slight, and of ``underconfidence`` in nearly
    all where there is none. Where gaps change their sign from bin to bin and are no larger than chance would make them,
    those of the calibration errors hold it in some 90 %: their upper ends are then too low. The interval of ``rmsce``
    is wider than it need be near perfect calibration, and nothing is promised for ``mce``, which the smallest bin
    decides. A mean with an infinite NLL among its examples has no interval: NaN.

    The time grows with examples × replicates; the same seed gives the same intervals. With ``groups``, a thousand say,
    as many random groups of examples are resampled instead: for a million examples that takes seconds, and the width of
    an interval is known a little less well.

    >>> import torch
    >>> probs = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8]])
    >>> intervals = bootstrap(Examples.of(probs=probs, labels=torch.tensor([0, 1, 1, 1])), replicates=200)
    >>> found = intervals["accuracy"]
    >>> found.estimate, round(found.low, 2), round(found.high, 2)
    (0.75, 0.3, 0.95)
    """
    check_size("replicates", replicates, least=2)
    check_level(level)
    table = sort_examples(examples, check_size("bins", bins, least=1))
    own = whole(table)
    estimator = Estimator.of(table, own)
    draws = draw_counts(len(examples), replicates, seed)
    one_by_one: Iterable[ResampleSums] = (resample(table, counts) for counts in draws)
    drawn = one_by_one if groups is None else resample_groups(table, groups, replicates, seed)
    resampled = unbiased_metrics(estimator, drawn)
    imagined = estimator.if_calibrated(own, replicates, np.random.default_rng([seed, 1]))
    plain = {name: float(value) for name, value in estimator.metrics(own).items()}
    centres = estimator.centres(own, resampled)
    found = {}
    for name in METRICS:
        values = resampled[name]
        if not np.isfinite(plain[name]):
            found[name] = Interval(plain[name], np.nan, np.nan, np.nan)
            continue
        low, high = outer_quantiles(values, level)
        if name in PUSHED_UP_BY_CHANCE:
            low, high = error_interval(plain[name], centres[name], values, imagined[name], level)
        error = float(values.std(ddof=1))
        if name == "rmsce":
            low, high = float(np.sqrt(low)), float(np.sqrt(high))
            error = float(np.sqrt(np.maximum(values, 0)).std(ddof=1))
        if name == "accuracy":
            correct = round(plain["accuracy"] * len(examples))
            low, high = (float(bound) for bound in wilson_interval(correct, len(examples), level))
        if name == "mce":  # no bin's gap is above the largest, so neither is their mean, wherever that truly lies
            low = max(low, found["ece"].low)
        found[name] = Interval(plain[name], low, high, error)
    return found


def unbiased_metrics(
    estimator: Estimator, resamples: Iterable[ResampleSums], names: Sequence[str] = METRICS
) -> dict[str, Array]:
    """The unbiased metrics of an iterator of resamples, a block of them at a time."""
    iterator = iter(resamples)
    blocks: list[dict[str, Array]] = []
    while block := list(islice(iterator, BLOCK)):
        blocks.append(estimator.unbiased(stack(block), names))
    return {name: np.concatenate([block[name] for block in blocks]) for name in names}


def error_interval(
    estimate: float, centre: float, values: Array, if_calibrated: Array, level: float
) -> tuple[float, float]:
    """The interval of an error that chance pushes up, from its unbiased resamples around an unbiased centre.

    It starts at 0 where the estimate is no larger than a share ``level`` of those in imagined calibrated worlds.
    """
    low, high = (min(max(bound, 0.0), 1.0) for bound in around(centre, values, level, reflect=True))
    # rounding must not tell an error of 0 from the same in a world that is calibrated
    unremarkable = estimate <= np.quantile(if_calibrated, level) + 1e-12
    return 0.0 if unremarkable else low, high


def around(centre: float, values: Array, level: float, *, reflect: bool) -> tuple[float, float]:
    """The centre and the quantiles of how far values lie from their mean; reflected, on the other side of it.

    A statistic that resampling pushes up by something and chance pushed up by the same: the truth lies as far below
    the statistic as the statistic below its resamples.
    """
    low, high = outer_quantiles(values - values.mean(), level)
    return (centre - high, centre - low) if reflect else (centre + low, centre + high)


def outer_quantiles(values: Array, level: float) -> tuple[float, float]:
    """The quantiles that leave out (1 − level) / 2 on each side, at ranks of R + 1: the truth is one more draw."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], method="weibull")
    return float(low), float(high)
