"""Selective prediction: act only on predictions whose confidence is high enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from singleshot.common.checks import check_range
from singleshot.metrics.binning import Array
from singleshot.metrics.examples import Examples

Counts = NDArray[np.int64]

STARTS = (0.999, 0.99, 0.975, 0.95, 0.9, 0.8, 0.6, 0.4)
"""Thresholds at which a search starts. The guarantee requires that they are fixed in advance."""
THRESHOLDS = tuple(sorted({*(k / 100 for k in range(100)), *(k / 1000 for k in range(951, 1000)), *STARTS}))[::-1]
"""All candidate thresholds, in decreasing order."""


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """The risk–coverage curve, one point per distinct confidence, in decreasing order of the threshold."""

    threshold: Array  # accept if the confidence is at least this
    coverage: Array  # share of examples accepted
    risk: Array  # share of wrong predictions among them
    count: int  # number of examples

    @property
    def aurc(self) -> float:
        """The area under the curve: Σ (step in coverage) × (risk after the step). Ties are accepted together."""
        return float(np.diff(self.coverage, prepend=0) @ self.risk)

    @property
    def excess_aurc(self) -> float:
        """The AURC minus that of an oracle which accepts all correct predictions before any wrong one."""
        correct = round((1 - float(self.risk[-1])) * self.count)
        return float(excess_over_oracle(self.aurc, correct, self.count))


@dataclass(frozen=True)
class Threshold:
    """The lowest threshold that guarantees an accuracy, or None; ``message`` explains the result."""

    wanted: float  # the accuracy to reach
    confidence: float  # the probability of the guarantee
    threshold: float | None  # accept if the confidence is at least this
    coverage: float  # share of these examples that it accepts
    accepted: int
    accuracy: float  # of the accepted examples; NaN if there are none
    lower_bound: float  # of the accuracy on all data; NaN if nothing is accepted
    message: str

    def __str__(self) -> str:
        return self.message


def risk_coverage(examples: Examples) -> RiskCoverage:
    """Compute the risk–coverage curve.

    >>> import torch
    >>> probs = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.8, 0.2], [0.6, 0.4]])
    >>> curve = risk_coverage(Examples.of(probs=probs, labels=torch.tensor([0, 0, 1, 1])))
    >>> curve.coverage, curve.risk.round(3)
    (array([0.25, 0.75, 1.  ]), array([0.   , 0.333, 0.5  ]))
    """
    confidence = examples.confidence.double().numpy()
    levels, first, group, accepted = np.unique(
        examples.descending(), return_index=True, return_inverse=True, return_counts=True
    )
    wrong = np.bincount(group, weights=~examples.correct.numpy(), minlength=len(levels))
    accepted = np.cumsum(accepted)
    return RiskCoverage(
        threshold=confidence[first],
        coverage=accepted / len(confidence),
        risk=np.cumsum(wrong) / accepted,
        count=len(confidence),
    )


def excess_over_oracle(aurc: Array | float, correct: Array | float, count: int) -> Array:
    """Return the AURC minus the lowest possible one for this number of correct predictions.

    With k of N predictions correct, the risk of the oracle's first i is max(0, i − k) / i. Its mean over i is
    (N − k − k (H_N − H_k)) / N, where differences of harmonic numbers H equal those of the digamma function.
    """
    from scipy.special import digamma

    oracle = (count - correct - correct * (digamma(count + 1) - digamma(np.add(correct, 1)))) / count
    return np.asarray(np.maximum(aurc - oracle, 0))  # negative only by rounding


def threshold_for_accuracy(examples: Examples, accuracy: float, *, confidence: float = 0.95) -> Threshold:
    """Find the lowest threshold whose accepted predictions reach an accuracy, with a statistical guarantee.

    With probability ``confidence`` over the draw of the examples, the accuracy on all data (not only on these examples)
    of predictions at or above the returned threshold is at least ``accuracy``. This assumes that future data is like
    the examples, and one accuracy and one classifier chosen in advance.

    The candidate thresholds are fixed. Given the number of accepted examples, the correct ones are binomial, so if the
    true accuracy is too low, the Clopper–Pearson bound reaches ``accuracy`` with probability δ at most. A search goes
    down from a fixed start and stops at the first bound below ``accuracy``. It errs only if it passes the first
    threshold that is truly too low, so it needs no correction for the number of thresholds (fixed-sequence testing).
    There are eight searches, because a start that accepts too few examples fails, each with δ = (1 − confidence) / 8
    (Bonferroni).

    >>> import torch
    >>> probs = torch.tensor([[0.97, 0.03]] * 900 + [[0.55, 0.45]] * 100)
    >>> labels = torch.tensor([0] * 895 + [1] * 5 + [0, 1] * 50)
    >>> found = threshold_for_accuracy(Examples.of(probs=probs, labels=labels), 0.97)
    >>> found.threshold, found.coverage, round(found.lower_bound, 3)
    (0.56, 0.9, 0.985)
    """
    check_range("accuracy", accuracy, "(0, 1)")
    accepted, correct, lower = threshold_bounds(examples, confidence=confidence)
    passes = lower >= accuracy
    certified = np.zeros(len(THRESHOLDS), dtype=bool)
    for start in map(THRESHOLDS.index, STARTS):
        stop = start + int(np.argmin(np.append(passes[start:], False)))
        certified[start:stop] = True
    if not certified.any():
        message = _why_none(accepted, lower, accuracy, confidence, len(examples))
        return Threshold(accuracy, confidence, None, 0.0, 0, float("nan"), float("nan"), message)
    best = int(np.flatnonzero(certified).max())
    share = float(accepted[best] / len(examples))
    return Threshold(
        wanted=accuracy,
        confidence=confidence,
        threshold=THRESHOLDS[best],
        coverage=share,
        accepted=int(accepted[best]),
        accuracy=float(correct[best] / accepted[best]),
        lower_bound=float(lower[best]),
        message=f"accepting scores of {THRESHOLDS[best]:g} and above keeps {share * 100:.1f} % of the examples; it is "
        f"{confidence * 100:g} % certain that at least {accuracy * 100:g} % of such predictions are right",
    )


def threshold_bounds(examples: Examples, *, confidence: float = 0.95) -> tuple[Counts, Counts, Array]:
    """Return accepted and correct examples and the lower bound of the accuracy at each of `THRESHOLDS`."""
    check_range("confidence", confidence, "(0, 1)")
    accepted, correct = accepted_at(examples, THRESHOLDS)
    return accepted, correct, clopper_pearson_lower(correct, accepted, (1 - confidence) / len(STARTS))


def accepted_at(examples: Examples, thresholds: Sequence[float]) -> tuple[Counts, Counts]:
    """Count the examples at or above each threshold, and the correct ones among them; thresholds in any order."""
    # Thresholds are rounded to the dtype of the confidences, as in a comparison with a tensor.
    ascending, place = torch.tensor(thresholds, dtype=torch.float64).to(examples.confidence.dtype).sort(stable=True)
    reached = torch.bucketize(examples.confidence, ascending, right=True).numpy()
    found = []
    for some in (reached, reached[examples.correct.numpy()]):
        count = np.bincount(some, minlength=len(thresholds) + 1)
        at_least = np.empty(len(thresholds), dtype=np.int64)
        at_least[place.numpy()] = np.cumsum(count[:0:-1])[::-1]
        found.append(at_least)
    return found[0], found[1]


def clopper_pearson_lower(successes: Counts, counts: Counts, miss: float) -> Array:
    """Exact lower bounds of proportions, wrong with probability ``miss`` at most; 0 if nothing succeeds."""
    from scipy.special import betaincinv

    safe = np.maximum(successes, 1)
    return np.asarray(np.where(successes > 0, betaincinv(safe, counts - successes + 1.0, miss), 0.0))


def _why_none(accepted: Counts, lower: Array, accuracy: float, confidence: float, count: int) -> str:
    best = max(map(THRESHOLDS.index, STARTS), key=lambda start: float(lower[start]))
    reason = f"no correct prediction has a score of {STARTS[-1]:g} or more"
    if lower[best] > 0:
        reason = (
            f"the best of the {len(STARTS)} thresholds at which a search starts, {THRESHOLDS[best]:g}, accepts "
            f"{accepted[best]:,} of {count:,} examples and guarantees only {lower[best] * 100:.4g} %"
        )
    needed = int(np.ceil(np.log((1 - confidence) / len(STARTS)) / np.log(accuracy)))
    return (
        f"no threshold is {confidence * 100:g} % certain to reach an accuracy of {accuracy * 100:g} %: {reason}; even "
        f"without errors it takes {needed:,} accepted examples. Lower the accuracy or use more examples"
    )


def auroc(scores: Array, is_positive: NDArray[np.bool_]) -> float | None:
    """Return the probability that a positive example has a higher score than another; ties count half.

    None if all examples are positive, or none is.

    >>> auroc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
    0.75
    """
    positive, negative = scores[is_positive], np.sort(scores[~is_positive])
    if not len(positive) or not len(negative):
        return None
    below = np.searchsorted(negative, positive, "left") + np.searchsorted(negative, positive, "right")
    return float(below.mean() / (2 * len(negative)))
