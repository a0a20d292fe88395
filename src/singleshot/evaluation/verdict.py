"""A verdict in a sentence or two: can these scores be trusted, as far as these examples can tell?"""

from __future__ import annotations

import math
from typing import Literal

from singleshot.evaluation.evaluation import FEWEST_RESAMPLED, Evaluation
from singleshot.evaluation.text import amount
from singleshot.metrics.examples import Examples
from singleshot.metrics.intervals import wilson_interval
from singleshot.metrics.selective import accepted_at
from singleshot.metrics.significance import consistency_test
from singleshot.training.recipe import Recipe

Tone = Literal["good", "fair", "bad", "unclear"]

SMALL, LARGE = 0.02, 0.05
"""Calibration errors up to the one pass for small, and from the other on for large."""
HIGH_SCORES = (0.9, 0.8, 0.7, 0.6, 0.5)
DEVIATIONS = 2.24
"""Standard errors beyond which chance takes a mean gap in 25 of 1,000 cases; the ECE has its say, too."""


def verdict(evaluation: Evaluation) -> tuple[str, Tone]:
    """The verdict, and how good it is; the evaluation must have its examples.

    What chance could have made is held neither against a classifier nor for it: of calibrated ones, about 75 in 1,000
    at most are found to be off at all, by the test of the mean (25) or by the interval of the ECE (50), and none is
    called bad for what may still be small.
    """
    examples = evaluation.examples
    assert examples is not None
    if len(examples) < FEWEST_RESAMPLED:
        return f"Too few to judge: {amount(len(examples), 'example')}, and it takes hundreds.", "unclear"
    gap, reach = mean_gap(examples)
    error = error_beyond_chance(evaluation)
    is_one_sided = abs(gap) > reach
    if not is_one_sided and error == 0:
        return _unsuspicious(evaluation, abs(gap) + reach)
    surely = max(abs(gap) - reach, evaluation.intervals["ece"].low if evaluation.intervals else 0.0)
    by_mean = _tone(abs(gap) if is_one_sided else 0.0, surely)
    by_error = _tone(error, surely)
    tone = max(by_mean, by_error, key=("good", "fair", "bad").index)
    direction = f"{'overconfident' if gap > 0 else 'underconfident'} by {points(abs(gap), reach)}"
    if not is_one_sided:
        start = f"Right on average, but off by {points(error)} score by score: too sure in places, not enough in others"
    elif abs(gap) < error / 2 or by_mean != tone:
        start = f"{direction.capitalize()} on average, and off by {points(error)} score by score"
    elif tone == "good":
        start = f"Nearly calibrated: {direction}"
    else:
        start = direction.capitalize()
    return f"{start}{high_scores(examples)}.", tone


def _tone(size: float, surely: float) -> Tone:
    """How bad an error of this size is that is surely no smaller than so much."""
    if size <= SMALL:
        return "good"
    return "bad" if size >= LARGE and surely > SMALL else "fair"


def mean_gap(examples: Examples) -> tuple[float, float]:
    """Mean confidence less accuracy, and how far chance may reach to either side of it.

    Chance spreads gaps at least as far as true confidences would: all answers right, the gaps themselves hardly vary.
    """
    confidence = examples.confidence.double()
    gaps = confidence - examples.correct.double()
    variance = max(float(gaps.var()), float((confidence * (1 - confidence)).mean()))
    return float(gaps.mean()), DEVIATIONS * math.sqrt(variance / len(gaps))


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
        bins = len(evaluation.result.bins.count)
        is_chance = consistency_test(evaluation.examples, replicates=100, bins=bins).p_value > 0.05
    return 0.0 if is_chance else evaluation.from_examples["debiased_ece"]


def high_scores(examples: Examples) -> str:
    """How often the highest scores are right, from a round score on that enough of them reach."""
    enough = max(FEWEST_RESAMPLED, len(examples) // 100)
    for score, count, right in zip(HIGH_SCORES, *accepted_at(examples, HIGH_SCORES), strict=True):
        if count >= enough:
            return f"; scores of {score:g} and above are right {percent(right, count)} of the time ({count:,} of them)"
    return ""


def points(share: float, reach: float = 0.0) -> str:
    """A difference of shares in points of a hundred; how far chance reaches is said where it matters.

    >>> points(0.081), points(0.0104), points(0.004), points(1e-9)
    ('8 points', '1 point', '0.4 points', 'less than 0.1 points')
    >>> points(0.14, 0.11), points(0.14, 0.02)
    ('14 ± 11 points', '14 points')
    >>> points(0.0104, 0.004)
    '1.0 ± 0.4 points'
    """
    if reach > share / 4 and share >= 0.0095:
        digits = 0 if reach >= 0.0095 else 1
        return f"{share * 100:.{digits}f} ± {reach * 100:.{digits}f} points"
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


def _unsuspicious(evaluation: Evaluation, without_intervals: float) -> tuple[str, Tone]:
    examples = evaluation.examples
    assert examples is not None
    high = evaluation.intervals["ece"].high if evaluation.intervals else without_intervals
    hidden = max(high, could_hide(examples))
    seen = f"No miscalibration shows in {amount(len(examples), 'example')}"
    if hidden < LARGE:
        return f"{seen}{high_scores(examples)}.", "good"
    return f"{seen}, but so few could hide an error of {points(hidden)}{high_scores(examples)}.", "unclear"


_GENTLE = ("bhattacharyya", "unbiased")
_BOLD = ("total_variation", "hellinger")


def measure_advice(recipe: Recipe, held_out: Examples) -> str | None:
    """Suggest a stronger disagreement measure to an overconfident network, a weaker one to an underconfident one.

    Only a gap that chance cannot have made counts. ``held_out`` must not be test images: advice is a choice.
    """
    if recipe.loss != "vwci" or len(held_out) < FEWEST_RESAMPLED:
        return None
    gap, reach = mean_gap(held_out)
    if abs(gap) - reach <= SMALL:
        return None
    size = f"{points(abs(gap), reach)} on held-out images"
    if gap > 0 and recipe.measure in _GENTLE:
        return f"Overconfident by {size}: try --measure {_BOLD[0]}, which pulls harder."
    if gap < 0 and recipe.measure in _BOLD:
        return f"Underconfident by {size}: try --measure {_GENTLE[0]}, which pulls less."
    return None
