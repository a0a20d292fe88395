"""A verdict in a sentence or two: can these scores be trusted, as far as these examples can tell?"""

from __future__ import annotations

import math
from typing import Literal

import torch

from singleshot.metrics.consistency import consistency_test
from singleshot.metrics.examples import Examples
from singleshot.metrics.wilson import wilson_interval
from singleshot.predictions.evaluation import FEWEST_RESAMPLED, Evaluation
from singleshot.report.tables import amount

Tone = Literal["good", "fair", "bad", "unclear"]

SMALL, LARGE = 0.02, 0.05
"""Calibration errors up to the one pass for small, and from the other on for large."""
HIGH_SCORES = (0.9, 0.8, 0.7, 0.6, 0.5)


def verdict(evaluation: Evaluation) -> tuple[str, Tone]:
    """The verdict, and how good it is. What chance could have made is not held against a classifier, nor for it."""
    examples = evaluation.examples
    assert examples is not None
    if len(examples) < FEWEST_RESAMPLED:
        return f"Too few to judge: {amount(len(examples), 'example')}, and it takes hundreds.", "unclear"
    gap, reach = mean_gap(examples)
    error = error_beyond_chance(evaluation)
    largest = max(could_hide(examples), evaluation.intervals["ece"].high if evaluation.intervals else abs(gap) + reach)
    if abs(gap) <= reach and error == 0:
        return _unsuspicious(len(examples), largest, examples)
    is_one_sided = abs(gap) > reach
    size = max(error, abs(gap) if is_one_sided else 0.0)
    tone: Tone = "good" if size <= SMALL else "fair" if size < LARGE else "bad"
    direction = "overconfident" if gap > 0 else "underconfident"
    if not is_one_sided:
        start = f"Right on average, but off by {points(error)} score by score: too sure in places, not enough in others"
    elif abs(gap) < error / 2:
        start = f"{direction.capitalize()} by {points(abs(gap))} on average, and off by {points(error)} score by score"
    elif tone == "good":
        start = f"Nearly calibrated: {direction} by {points(abs(gap))}"
    else:
        start = f"{direction.capitalize()} by {points(abs(gap))}"
    return f"{start}{high_scores(examples)}.", tone


def mean_gap(examples: Examples) -> tuple[float, float]:
    """Mean confidence less accuracy, and how far chance may reach to either side of it, in 95 of 100 cases.

    Chance spreads gaps at least as far as true confidences would: all answers right, the gaps themselves hardly vary.
    """
    confidence = examples.confidence.double()
    gaps = confidence - examples.correct.double()
    variance = max(float(gaps.var()), float((confidence * (1 - confidence)).mean()))
    return float(gaps.mean()), 1.96 * math.sqrt(variance / len(gaps))


def could_hide(examples: Examples) -> float:
    """The largest mean gap that the true accuracy may have. Where all answers are right, no resample tells of it."""
    confidence = float(examples.confidence.double().mean())
    low, high = wilson_interval(int(examples.correct.sum()), len(examples))
    return max(confidence - float(low), float(high) - confidence)


def error_beyond_chance(evaluation: Evaluation) -> float:
    """The ECE without what chance adds; 0 where chance explains all of it, as its interval says, or else a test."""
    if evaluation.intervals:
        is_chance = evaluation.intervals["ece"].low == 0
    else:
        assert evaluation.examples is not None
        is_chance = consistency_test(evaluation.examples, replicates=100).p_value > 0.05
    return 0.0 if is_chance else evaluation.from_examples["debiased_ece"]


def high_scores(examples: Examples) -> str:
    """How often the highest scores are right, from a round score on above which there are enough of them."""
    enough = max(FEWEST_RESAMPLED, len(examples) // 100)
    for score in HIGH_SCORES:
        above = examples.confidence > torch.tensor(score, dtype=torch.float64).to(examples.confidence.dtype)
        count = int(above.sum())
        if count >= enough:
            right = int((above & examples.correct).sum())
            return f": scores above {score:g} are right {percent(right, count)} of the time ({count:,} of them)"
    return ""


def points(share: float) -> str:
    """A difference of shares in points of a hundred.

    >>> points(0.081), points(0.0104), points(0.004), points(1e-9)
    ('8 points', '1 point', '0.4 points', 'less than 0.1 points')
    """
    if share < 0.001:
        return "less than 0.1 points"
    value = f"{share * 100:.0f}" if share >= 0.0095 else f"{share * 100:.1g}"
    return f"{value} point{'' if value == '1' else 's'}"


def percent(part: int, whole: int) -> str:
    """A share in percent; only all is 100 %, and only none is 0 %.

    >>> percent(711, 1000), percent(9999, 10000), percent(5, 5)
    ('71 %', '99.99 %', '100 %')
    """
    for digits in range(8):
        text = f"{100 * part / whole:.{digits}f}"
        if float(text) not in {0.0, 100.0} or part in {0, whole}:
            break
    return f"{text} %"


def _unsuspicious(count: int, largest: float, examples: Examples) -> tuple[str, Tone]:
    seen = f"No miscalibration shows in {amount(count, 'example')}"
    if largest < LARGE:
        return f"{seen}{high_scores(examples)}.", "good"
    return f"{seen}, but so few could hide an error of {points(largest)}{high_scores(examples)}.", "unclear"
