"""What scores claimed and what held, in the digits that are shown, and whether chance explains the difference."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from singleshot.metrics.binning import Array, BinSums, bin_index, simulate_calibrated, sum_by_bin
from singleshot.metrics.examples import FIELDS, Examples
from singleshot.metrics.intervals import wilson_interval
from singleshot.metrics.resampling import binned

HIGH_SCORES = (0.9, 0.8, 0.7, 0.6, 0.5)
MIN_HIGH = 30
MAX_DIGITS = 6
DEVIATIONS = 2.24
"""Number of standard errors that a mean gap exceeds by chance in 25 of 1,000 cases."""
SIMULATIONS = 1000
CELLS = 1024


@dataclass(frozen=True)
class Claim:
    """Mean score and accuracy of some predictions, rounded as they are shown, so that words and numbers agree."""

    least: float  # the claim is about scores from here on
    count: int
    digits: int  # of percentages
    claimed: float  # mean score
    right: float  # share of correct predictions
    margin: float  # of the difference

    @classmethod
    def of(cls, examples: Examples, least: float = 0.0) -> Claim:
        """Compare the scores of examples with what held."""
        gap, margin = mean_gap(examples)
        right = float(examples.correct.double().mean())
        # Two digits of the smaller error rate, and one of a gap that chance hardly explains.
        digits = max(_digits(1 - right), _digits(1 - right - gap))
        if abs(gap) > margin:
            digits = min(max(digits, _digits(10 * gap)), digits + 2)
        places = digits + 2
        return cls(
            least, len(examples), digits, round(right + gap, places), round(right, places), round(margin, places)
        )

    @property
    def gap(self) -> float:
        """Claimed minus right; positive if overconfident."""
        return round(self.claimed - self.right, self.digits + 2)

    @property
    def multiple(self) -> float:
        """The actual error rate divided by the claimed one, or its inverse if that is larger."""
        return max(_ratio(1 - self.right, 1 - self.claimed), _ratio(1 - self.claimed, 1 - self.right))

    @property
    def least_multiple(self) -> float:
        """The smallest multiple, in the same direction, that the number of examples allows."""
        errors = 1 - self.right
        low, high = (1 - float(bound) for bound in reversed(wilson_interval(self.right * self.count, self.count)))
        return _ratio(low, 1 - self.claimed) if errors > 1 - self.claimed else _ratio(1 - self.claimed, high)


def _digits(rate: float) -> int:
    """Decimals of a percentage that show two digits of a rate; one for a rate of 0."""
    if abs(rate) < 1e-12:
        return 1
    return min(max(1, 1 - math.floor(math.log10(100 * abs(rate)))), MAX_DIGITS)


def _ratio(rate: float, other: float) -> float:
    rate, other = round(rate, MAX_DIGITS + 2), round(other, MAX_DIGITS + 2)
    if rate == other:
        return 1.0
    return rate / other if other else math.inf


def mean_gap(examples: Examples) -> tuple[float, float]:
    """Return mean confidence minus accuracy, and its margin of error.

    The variance is at least that of correct confidences: if all predictions are right, the gaps hardly vary.
    """
    confidence = examples.confidence.double()
    gaps = confidence - examples.correct.double()
    variance = max(float(gaps.var(unbiased=len(gaps) > 1)), float((confidence * (1 - confidence)).mean()))
    return float(gaps.mean()), DEVIATIONS * math.sqrt(variance / len(gaps))


def high_scores(examples: Examples) -> tuple[float, Examples] | None:
    """Select the scores from the highest of `HIGH_SCORES` on that enough examples reach; None if there is none.

    The choice depends on the scores alone, so that a test of the selected examples is valid.
    """
    for score in HIGH_SCORES:
        selected = examples.confidence >= torch.tensor(score, dtype=examples.confidence.dtype)
        if int(selected.sum()) >= max(MIN_HIGH, len(examples) // 100):
            values = {name: getattr(examples, name) for name in FIELDS}
            return score, Examples(**{name: value[selected] for name, value in values.items() if value is not None})
    return None


def chance(examples: Examples, bins: int = 1) -> float:
    """The p-value of the ECE if every prediction is correct with the probability of its score; one bin tests the mean.

    This is `consistency_test`, fast for many examples: in each of at least `CELLS` cells of the score, the number of
    correct predictions is drawn at once.
    """
    fine = bins * math.ceil(CELLS / bins)
    index = bin_index(examples.confidence, fine)
    sums = (
        sum_by_bin(index, fine),
        sum_by_bin(index[examples.correct], fine),
        sum_by_bin(index, fine, examples.confidence),
    )
    filled = np.flatnonzero(sums[0].numpy())
    cells = BinSums(*(values.double().numpy()[filled] for values in sums))
    _, starts = np.unique(filled // (fine // bins), return_index=True)

    def error(some: BinSums) -> Array:
        merged = binned(some, starts)
        return np.asarray(np.abs(merged.confidence - merged.correct).sum(-1))

    simulated = error(simulate_calibrated(cells, SIMULATIONS, np.random.default_rng(0)))
    as_large = int((simulated >= error(cells) - 1e-9).sum())  # equal errors may differ by rounding
    return (1 + as_large) / (1 + SIMULATIONS)
