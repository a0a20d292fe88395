"""Tests of calibration: could chance explain an error, or a difference between two classifiers?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from singleshot.common.checks import check_choice, check_size
from singleshot.metrics.estimates import HIGHER_IS_BETTER, METRICS, PUSHED_UP_BY_CHANCE, Estimator
from singleshot.metrics.examples import Examples
from singleshot.metrics.intervals import around, unbiased_metrics
from singleshot.metrics.resampling import SortedExamples, draw_counts, resample, resample_groups, sort_examples, whole
from singleshot.metrics.wilson import check_level

STATISTICS = ("ece", "total")


@dataclass(frozen=True)
class ConsistencyTest:
    """How large an error was found, what perfect calibration leads to, and how often that is as large."""

    statistic: str
    observed: float
    expected: float  # the mean if the confidences were right
    p_value: float


def consistency_test(
    examples: Examples, *, statistic: str = "ece", replicates: int = 1000, seed: int = 0, bins: int = 20
) -> ConsistencyTest:
    """Test that each prediction is right with the probability that its confidence says.

    Correctness is drawn anew from the confidences many times; if they are right, what was observed is one more such
    draw, and p = (1 + draws at least as large) / (1 + draws) is at most α with a probability of at most α, exactly and
    for any number of examples. A small p says that the confidences are wrong, a large one not that they are right.

    Args:
        examples: independent examples; a thousand copies of one would look like evidence.
        statistic: "ece", the binned error, sees every kind of miscalibration; "total", |mean confidence − accuracy|,
            needs no bins and sees over- or underconfidence that goes one way everywhere, with fewer examples.
        replicates: how many draws; the smallest possible p is 1 / (1 + replicates).
        seed: the same one gives the same p-value.
        bins: equal-width bins of the ECE.

    >>> import torch
    >>> probs = torch.tensor([[0.99, 0.01]]).repeat(50, 1)
    >>> consistency_test(Examples.of(probs=probs, labels=torch.tensor([0, 1] * 25))).p_value < 0.01
    True
    """
    check_choice("statistic", statistic, STATISTICS)
    check_size("replicates", replicates, least=1)
    table = sort_examples(examples, check_size("bins", bins, least=1))
    starts = table.cells[table.width_bins] if statistic == "ece" else np.zeros(1, dtype=np.int64)
    confidence = np.add.reduceat(table.confidence, starts)
    generator = np.random.Generator(np.random.SFC64(seed))

    def error(correct: NDArray[np.bool_]) -> float:
        return float(np.abs(confidence - np.add.reduceat(correct.astype(np.int64), starts)).sum()) / len(table)

    observed = error(table.wrong == 0)
    imagined = np.array([error(_draw(table, generator)) for _ in range(replicates)])
    # Equal sets of right answers must count as equal, whatever rounding says.
    as_large = int((imagined >= observed - 1e-12).sum())
    return ConsistencyTest(statistic, observed, float(imagined.mean()), (1 + as_large) / (1 + replicates))


def _draw(table: SortedExamples, generator: np.random.Generator) -> NDArray[np.bool_]:
    return np.asarray(generator.random(len(table)) < table.confidence)


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
