"""A verdict in words on the calibration of confidences, with the uncertainty of a finite sample."""

from __future__ import annotations

import math
from typing import Literal

from singleshot.evaluation.evaluation import MIN_RESAMPLED, Evaluation
from singleshot.evaluation.formatting import amount, percent, points
from singleshot.metrics.examples import Examples
from singleshot.metrics.intervals import wilson_interval
from singleshot.metrics.selective import accepted_at
from singleshot.metrics.significance import consistency_test

Tone = Literal["good", "fair", "bad", "unclear"]

SMALL, LARGE = 0.02, 0.05
"""A calibration error up to the first counts as small, from the second on as large."""
HIGH_SCORES = (0.9, 0.8, 0.7, 0.6, 0.5)
DEVIATIONS = 2.24
"""Number of standard errors that a mean gap exceeds by chance in 25 of 1,000 cases."""


def verdict(evaluation: Evaluation) -> tuple[str, Tone]:
    """Return the verdict on an evaluation with examples, and its tone.

    Errors that sampling noise explains are ignored. Of 1,000 calibrated classifiers, at most about 75 are reported as
    miscalibrated: 25 by the test of the mean gap, 50 by the interval of the ECE. An error that may be small is never
    rated as bad.
    """
    examples = evaluation.examples
    assert examples is not None
    if len(examples) < MIN_RESAMPLED:
        return f"Too few examples for a verdict: {len(examples):,}; hundreds are needed.", "unclear"
    gap, margin = mean_gap(examples)
    error = _error_beyond_chance(evaluation)
    is_one_sided = abs(gap) > margin
    if not is_one_sided and error == 0:
        return _no_miscalibration(evaluation, examples, abs(gap) + margin)
    at_least = max(abs(gap) - margin, evaluation.intervals["ece"].low if evaluation.intervals else 0.0)
    tone_of_mean = _tone(abs(gap) if is_one_sided else 0.0, at_least)
    tone = max(tone_of_mean, _tone(error, at_least), key=("good", "fair", "bad").index)
    direction = f"{'Overconfident' if gap > 0 else 'Underconfident'} by {points(abs(gap), margin)}"
    if not is_one_sided:
        start = f"Calibrated on average, but scores are off by {points(error)}: too high in places, too low in others"
    elif abs(gap) < error / 2 or tone_of_mean != tone:
        start = f"{direction} on average, with scores off by {points(error)} in either direction"
    elif tone == "good":
        start = f"Nearly calibrated: {direction.lower()}"
    else:
        start = direction
    return f"{start}{_high_scores(examples)}.", tone


def mean_gap(examples: Examples) -> tuple[float, float]:
    """Return mean confidence minus accuracy, and its margin of error.

    The variance is at least that of correct confidences: if all predictions are right, the gaps hardly vary.
    """
    confidence = examples.confidence.double()
    gaps = confidence - examples.correct.double()
    variance = max(float(gaps.var()), float((confidence * (1 - confidence)).mean()))
    return float(gaps.mean()), DEVIATIONS * math.sqrt(variance / len(gaps))


def _tone(error: float, at_least: float) -> Tone:
    if error <= SMALL:
        return "good"
    return "bad" if error >= LARGE and at_least > SMALL else "fair"


def _error_beyond_chance(evaluation: Evaluation) -> float:
    """The debiased ECE, or 0 if its interval includes 0; without intervals, if a test finds no miscalibration."""
    if evaluation.intervals:
        is_chance = evaluation.intervals["ece"].low == 0
    else:
        assert evaluation.examples is not None
        bins = len(evaluation.result.bins.count)
        is_chance = consistency_test(evaluation.examples, replicates=100, bins=bins).p_value > 0.05
    return 0.0 if is_chance else evaluation.example_metrics["debiased_ece"]


def _no_miscalibration(evaluation: Evaluation, examples: Examples, without_intervals: float) -> tuple[str, Tone]:
    high = evaluation.intervals["ece"].high if evaluation.intervals else without_intervals
    undetected = max(high, _largest_gap(examples))
    start = f"No miscalibration found in {amount(len(examples), 'example')}"
    if undetected < LARGE:
        return f"{start}{_high_scores(examples)}.", "good"
    return f"{start}, but an error of {points(undetected)} could go undetected{_high_scores(examples)}.", "unclear"


def _largest_gap(examples: Examples) -> float:
    """The largest plausible mean gap, by a Wilson interval: resamples do not vary if all predictions are right."""
    confidence = float(examples.confidence.double().mean())
    low, high = wilson_interval(int(examples.correct.sum()), len(examples))
    return max(confidence - float(low), float(high) - confidence)


def _high_scores(examples: Examples) -> str:
    """Accuracy of the high scores, above the highest of `HIGH_SCORES` with enough examples."""
    enough = max(MIN_RESAMPLED, len(examples) // 100)
    for score, count, right in zip(HIGH_SCORES, *accepted_at(examples, HIGH_SCORES), strict=True):
        if count >= enough:
            return f"; scores of {score:g} and above are right {percent(right, count)} of the time ({count:,} examples)"
    return ""
