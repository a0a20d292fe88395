"""Is A better than B on the same examples? Both see the same resamples, so that what they share cancels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from singleshot.checks import check_choice, check_size
from singleshot.metrics.bootstrap import around, unbiased_metrics
from singleshot.metrics.estimates import HIGHER_IS_BETTER, METRICS, PUSHED_UP_BY_CHANCE, Estimator
from singleshot.metrics.examples import Examples
from singleshot.metrics.resampling import draw_counts, resample, sort_examples, whole
from singleshot.metrics.wilson import check_level


@dataclass(frozen=True)
class Comparison:
    """A metric of A and of B, their difference A − B with its interval, and how surprising it would be by chance."""

    metric: str
    a: float
    b: float
    difference: float  # A − B, without the bias that chance gives each of them; of ``rmsce``, of the squares
    low: float
    high: float
    p_value: float  # two-sided: how often chance alone makes so large a difference
    a_is_better: float  # the share of resamples in which it is


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
    """Compare two classifiers' predictions of the same examples, in the same order, by any metric of `bootstrap`.

    The p-value is that of the resampled differences, moved to have mean 0: (1 + how many are as far from 0 as the
    difference) / (1 + replicates). For ``rmsce`` the differences are those of the mean squared errors: near perfect
    calibration a root would make the noise of the two errors larger than that of their resamples, which lie higher.

    >>> import torch
    >>> labels = torch.tensor([0, 1] * 50)
    >>> right = torch.nn.functional.one_hot(labels, 2).double()
    >>> a, b = (Examples.of(probs=right * (1 - 2 * e) + e, labels=labels) for e in (0.01, 0.3))
    >>> comparison = paired_bootstrap(a, b, "brier", replicates=200)
    >>> round(comparison.difference, 3), comparison.a_is_better
    (-0.18, 1.0)
    """
    check_choice("metric", metric, METRICS)
    check_size("replicates", replicates, least=2)
    check_level(level)
    _check_same_data(a, b)
    tables = [sort_examples(examples, check_size("bins", bins, least=1)) for examples in (a, b)]
    wholes = [whole(table) for table in tables]
    estimators = [Estimator.of(table, own) for table, own in zip(tables, wholes, strict=True)]
    # drawn twice from the same seed rather than kept: a count for each example and replicate would be large
    resampled = [
        unbiased_metrics(
            estimator,
            (resample(table, counts[table.order]) for counts in draw_counts(len(a), replicates, seed)),
            (metric,),
        )
        for estimator, table in zip(estimators, tables, strict=True)
    ]
    plain = [
        float(estimator.metrics(own, (metric,))[metric]) for estimator, own in zip(estimators, wholes, strict=True)
    ]
    if not np.isfinite(plain).all():
        raise ValueError(
            f"metric={metric!r} is infinite for these examples, and infinities cannot be compared: a label has "
            "probability 0; give logits=, or compare by another metric"
        )
    first, second = (
        estimator.centres(own, values)[metric]
        for estimator, own, values in zip(estimators, wholes, resampled, strict=True)
    )
    difference, differences = first - second, resampled[0][metric] - resampled[1][metric]
    low, high = around(difference, differences, level, reflect=metric in PUSHED_UP_BY_CHANCE)
    noise = differences - differences.mean()
    as_far = int((np.abs(noise) >= abs(difference) - 1e-15).sum())
    sign = -1 if metric in HIGHER_IS_BETTER else 1
    return Comparison(
        metric=metric,
        a=plain[0],
        b=plain[1],
        difference=difference,
        low=low,
        high=high,
        p_value=(1 + as_far) / (1 + replicates),
        a_is_better=float((sign * (difference + noise) < 0).mean()),
    )


def _check_same_data(a: Examples, b: Examples) -> None:
    if len(a) != len(b):
        raise ValueError(f"a and b must be predictions of the same examples, got {len(a)} and {len(b)} of them")
    if a.labels_digest and b.labels_digest and a.labels_digest != b.labels_digest:
        raise ValueError(
            "a and b must be predictions of the same examples in the same order, but their labels differ; sort both "
            "the same way before making Examples of them"
        )
