"""Is A better than B on the same examples? Both see the same resamples, so that what they share cancels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from singleshot.checks import check_choice, check_size
from singleshot.metrics.bootstrap import around, unbiased_metrics
from singleshot.metrics.estimates import HIGHER_IS_BETTER, METRICS, PUSHED_UP_BY_CHANCE, Estimator
from singleshot.metrics.examples import Examples
from singleshot.metrics.grouped import resample_groups
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


@dataclass(frozen=True, eq=False)
class Resampled:
    """Some metrics of a classifier in resamples that any other one of the same examples sees too."""

    count: int  # examples
    labels_digest: str
    plain: dict[str, float]  # by name
    centres: dict[str, float]  # without the bias of chance
    values: dict[str, NDArray[np.float64]]  # one per resample, without it as well


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
    check_level(level)
    _check_same_data(len(a), len(b), a.labels_digest, b.labels_digest)
    first, second = (
        resampled_metrics(examples, (metric,), replicates=replicates, seed=seed, bins=bins) for examples in (a, b)
    )
    return compare_resampled(first, second, metric, level=level)


def resampled_metrics(
    examples: Examples,
    metrics: Sequence[str],
    *,
    replicates: int = 1000,
    seed: int = 0,
    bins: int = 20,
    groups: int | None = None,
) -> Resampled:
    """What `compare_resampled` needs of each of many classifiers, for many metrics, from one set of resamples.

    With ``groups``, as many random groups of examples are resampled, as in `bootstrap`.
    """
    for metric in metrics:
        check_choice("metric", metric, METRICS)
    check_size("replicates", replicates, least=2)
    table = sort_examples(examples, check_size("bins", bins, least=1))
    own = whole(table)
    estimator = Estimator.of(table, own)
    # drawn anew from the same seed rather than kept: a count for each example and replicate would be large
    draws = draw_counts(len(examples), replicates, seed)
    one_by_one = (resample(table, counts[table.order]) for counts in draws)
    drawn = one_by_one if groups is None else resample_groups(table, groups, replicates, seed)
    values = unbiased_metrics(estimator, drawn, metrics)
    plain = {name: float(value) for name, value in estimator.metrics(own, metrics).items()}
    return Resampled(len(examples), examples.labels_digest, plain, estimator.centres(own, values), values)


def compare_resampled(a: Resampled, b: Resampled, metric: str, *, level: float = 0.95) -> Comparison:
    """Compare two classifiers by one of the metrics that both were resampled for, with the same options."""
    _check_same_data(a.count, b.count, a.labels_digest, b.labels_digest)
    plain = [a.plain[metric], b.plain[metric]]
    if not np.isfinite(plain).all():
        raise ValueError(
            f"metric={metric!r} is infinite for these examples, and infinities cannot be compared: a label has "
            "probability 0; give logits=, or compare by another metric"
        )
    difference = a.centres[metric] - b.centres[metric]
    differences = a.values[metric] - b.values[metric]
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
        p_value=(1 + as_far) / (1 + len(differences)),
        a_is_better=float((sign * (difference + noise) < 0).mean()),
    )


def _check_same_data(a: int, b: int, a_digest: str, b_digest: str) -> None:
    if a != b:
        raise ValueError(f"a and b must be predictions of the same examples, got {a} and {b} of them")
    if a_digest and b_digest and a_digest != b_digest:
        raise ValueError(
            "a and b must be predictions of the same examples in the same order, but their labels differ; sort both "
            "the same way before making Examples of them"
        )
