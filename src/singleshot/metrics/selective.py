"""Selective prediction: answer only where the confidence is high enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from singleshot.metrics.examples import Examples
from singleshot.metrics.wilson import check_level

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

STARTS = (0.999, 0.99, 0.975, 0.95, 0.9, 0.8, 0.6, 0.4)
"""Thresholds a search begins at. Fixed beforehand, as the guarantee wants it, and close where confidences crowd."""
THRESHOLDS = tuple(sorted({*(k / 100 for k in range(100)), *(k / 1000 for k in range(951, 1000)), *STARTS}))[::-1]
"""All thresholds that are looked at, from the strictest down."""


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """What accepting only confident predictions gives, at every distinct confidence, from the strictest down."""

    threshold: Array  # accept where the confidence is at least this
    coverage: Array  # the share of examples accepted
    risk: Array  # the share of those that are wrong
    count: int  # examples in all

    @property
    def aurc(self) -> float:
        """The area under the risk–coverage curve: Σ (step in coverage) × (risk after the step).

        This is the mean over examples of the risk of accepting whatever is at least as confident as they are. Equal
        confidences are accepted together, as any threshold must, so no order among them is invented.
        """
        return float(np.diff(self.coverage, prepend=0) @ self.risk)

    @property
    def excess_aurc(self) -> float:
        """The AURC above that of an oracle which accepts all right predictions before any wrong one."""
        right = round((1 - float(self.risk[-1])) * self.count)
        return float(excess_over_oracle(self.aurc, right, self.count))


@dataclass(frozen=True)
class Threshold:
    """The lowest threshold that is sure to reach the wanted accuracy, or none."""

    wanted: float
    confidence: float
    threshold: float | None  # accept where the confidence is at least this; None: no threshold is sure to
    coverage: float  # share of these examples that it accepts
    accepted: int
    accuracy: float  # of those; NaN where none is accepted
    lower_bound: (
        float  # of the accuracy of all such predictions, at the level of the search; NaN where none is accepted
    )
    message: str


@dataclass(frozen=True, eq=False)
class ThresholdBounds:
    """Per threshold of `THRESHOLDS`: what it accepts, and the accuracy that all such predictions surely have."""

    accepted: Counts
    correct: Counts
    lower: Array


def risk_coverage(examples: Examples) -> RiskCoverage:
    """The risk–coverage curve, one point per distinct confidence.

    >>> import torch
    >>> probs = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.8, 0.2], [0.6, 0.4]])
    >>> curve = risk_coverage(Examples.of(probs=probs, labels=torch.tensor([0, 0, 1, 1])))
    >>> curve.coverage, curve.risk.round(3)
    (array([0.25, 0.75, 1.  ]), array([0.   , 0.333, 0.5  ]))
    """
    confidence = examples.confidence.double().numpy()
    levels, group, accepted = np.unique(-confidence, return_inverse=True, return_counts=True)
    wrong = np.bincount(group, weights=~examples.correct.numpy(), minlength=len(levels))
    accepted = np.cumsum(accepted)
    return RiskCoverage(
        threshold=-levels,
        coverage=accepted / len(confidence),
        risk=np.cumsum(wrong) / accepted,
        count=len(confidence),
    )


def excess_over_oracle(aurc: Array | float, right: Array | float, count: int) -> Array:
    """The AURC of so many examples above the least that so many right ones among them allow.

    Of N examples with k right ones, an oracle's first i have the risk max(0, i − k) / i. The mean of that is
    (N − k − k (H_N − H_k)) / N with the harmonic numbers H, whose differences are those of the digamma function.
    """
    from scipy.special import digamma

    oracle = (count - right - right * (digamma(count + 1) - digamma(np.add(right, 1)))) / count
    return np.asarray(np.maximum(aurc - oracle, 0))  # no order beats the oracle's but by rounding


def threshold_for_accuracy(examples: Examples, accuracy: float, *, confidence: float = 0.95) -> Threshold:
    """A threshold whose accepted predictions are right at least this often, with so much confidence: the lowest found.

    In a share ``confidence`` of all samples of examples, the accuracy of all predictions (not only these) at or above
    the threshold is at least ``accuracy``, provided one is returned, and future examples are like these. This is for an
    accuracy and a classifier chosen beforehand: the best of ten classifiers may miss more often than one.

    Why that holds: the thresholds are fixed beforehand, and given how many examples one accepts, the right ones among
    them are binomial. So where the true accuracy is too low, the Clopper–Pearson bound reaches the wanted one with
    probability δ at most. A walk from a fixed start downwards ends at the first bound that does not reach it; it goes
    wrong only if it goes wrong at the first threshold on its way that truly is too low, and so needs no correction for
    the many it looks at (fixed-sequence testing). A start with too few examples ends at once, so there are eight walks,
    each with δ = (1 − confidence) / 8: together they go wrong with probability 1 − confidence at most (Bonferroni).

    >>> import torch
    >>> probs = torch.tensor([[0.97, 0.03]] * 900 + [[0.55, 0.45]] * 100)
    >>> labels = torch.tensor([0] * 895 + [1] * 5 + [0, 1] * 50)
    >>> found = threshold_for_accuracy(Examples.of(probs=probs, labels=labels), 0.97)
    >>> found.threshold, found.coverage, round(found.lower_bound, 3)
    (0.56, 0.9, 0.985)
    """
    check_level(accuracy, "accuracy")
    bounds = threshold_bounds(examples, confidence=confidence)
    passes = bounds.lower >= accuracy
    certified = np.zeros(len(THRESHOLDS), dtype=bool)
    for start in (THRESHOLDS.index(value) for value in STARTS):
        stop = start + int(np.argmin(np.append(passes[start:], False)))
        certified[start:stop] = True
    if not certified.any():
        message = _why_none(bounds, accuracy, confidence, len(examples))
        return Threshold(accuracy, confidence, None, 0.0, 0, float("nan"), float("nan"), message)
    best = int(np.flatnonzero(certified).max())
    share = float(bounds.accepted[best] / len(examples))
    return Threshold(
        wanted=accuracy,
        confidence=confidence,
        threshold=THRESHOLDS[best],
        coverage=share,
        accepted=int(bounds.accepted[best]),
        accuracy=float(bounds.correct[best] / bounds.accepted[best]),
        lower_bound=float(bounds.lower[best]),
        message=f"accepting scores of {THRESHOLDS[best]:g} and above keeps {share * 100:.1f} % of the examples; it is "
        f"{confidence * 100:g} % certain that at least {accuracy * 100:g} % of such predictions are right",
    )


def threshold_bounds(examples: Examples, *, confidence: float = 0.95) -> ThresholdBounds:
    """What `threshold_for_accuracy` walks along, whatever the accuracy."""
    check_level(confidence, "confidence")
    accepted, correct = accepted_at(examples, THRESHOLDS)
    return ThresholdBounds(accepted, correct, clopper_pearson_lower(correct, accepted, _miss(confidence)))


def accepted_at(examples: Examples, thresholds: Sequence[float]) -> tuple[Counts, Counts]:
    """How many examples have at least each confidence, in any order of those, and how many of these are right."""
    import torch

    # rounded to the dtype of the confidences, as the comparison of a user's own tensor would
    ascending, place = torch.tensor(thresholds, dtype=torch.float64).to(examples.confidence.dtype).sort(stable=True)
    reached = torch.bucketize(examples.confidence, ascending, right=True).numpy()  # of them, by each example
    found = []
    for some in (reached, reached[examples.correct.numpy()]):
        count = np.bincount(some, minlength=len(thresholds) + 1)
        at_least = np.empty(len(thresholds), dtype=np.int64)
        at_least[place.numpy()] = np.cumsum(count[:0:-1])[::-1]
        found.append(at_least)
    return found[0], found[1]


def clopper_pearson_lower(successes: Counts, counts: Counts, miss: float) -> Array:
    """Exact lower bounds of proportions, above the truth with probability ``miss`` at most; 0 without a success."""
    from scipy.special import betaincinv

    safe = np.maximum(successes, 1)
    return np.asarray(np.where(successes > 0, betaincinv(safe, counts - successes + 1.0, miss), 0.0))


def _miss(confidence: float) -> float:
    """How often the walk from one start may go wrong."""
    return (1 - confidence) / len(STARTS)


def _why_none(bounds: ThresholdBounds, accuracy: float, confidence: float, count: int) -> str:
    # Of the starts alone: none is sure enough, or a walk had begun there. A bound in between belongs to no walk.
    best = max((THRESHOLDS.index(value) for value in STARTS), key=lambda start: float(bounds.lower[start]))
    at_best = (
        f"of the {len(STARTS)} that a search may begin at, the best, {THRESHOLDS[best]:g}, accepts "
        f"{bounds.accepted[best]:,} of {count:,} examples and is certain of {bounds.lower[best] * 100:.4g} % only"
        if bounds.lower[best] > 0
        else f"no right answer has a score of {STARTS[-1]:g} or more"
    )
    needed = int(np.ceil(np.log(_miss(confidence)) / np.log(accuracy)))
    return (
        f"none of the thresholds tried is {confidence * 100:g} % certain to reach an accuracy of {accuracy * 100:g} %: "
        f"{at_best}; even without an error it takes {needed:,} accepted examples. Ask for less, or give more examples"
    )
