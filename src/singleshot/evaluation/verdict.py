"""A verdict in words on the calibration of scores: one function decides the level, the badge and the sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from textwrap import wrap
from typing import Any, Literal, NamedTuple

from singleshot.evaluation.claims import MAX_DIGITS, Claim, chance, high_scores
from singleshot.evaluation.evaluation import MIN_RESAMPLED, Evaluation
from singleshot.evaluation.formatting import amount, points, share_text, times
from singleshot.evaluation.label_check import LabelFault
from singleshot.metrics.examples import Examples
from singleshot.metrics.intervals import wilson_interval

Level = Literal["good", "unclear", "near", "fair", "bad"]

BADGES: dict[Level, str] = {
    "good": "Calibrated",
    "unclear": "Unclear",
    "near": "Nearly calibrated",
    "fair": "Somewhat off",
    "bad": "Miscalibrated",
}
"""The word of each level, from the best to the worst."""
SMALL, LARGE = 0.02, 0.05
"""A calibration error up to the first counts as small, from the second on as large; and so do errors that are"""
FEW_TIMES, MANY_TIMES = 1.25, 2.0
"""at most or at least this many times as frequent as claimed. At an error rate of 10 % the rules agree."""
SIGNIFICANT = 0.05
TESTS = 3
WIDTH = 100


@dataclass(frozen=True)
class Verdict:
    """How far scores can be trusted."""

    level: Level
    finding: str  # what was found, in a few words
    details: Sequence[str] = ()  # sentences: what was claimed and what held
    p_value: float | None = None  # of perfect calibration; None with too few examples
    needed: int | None = None  # examples for a clear verdict, if this one is unclear
    label_advice: str | None = None  # what to do first, if the labels do not fit the predictions

    @property
    def badge(self) -> str:
        """The level as a word."""
        return BADGES[self.level] if self.label_advice is None else "Check the labels"

    @property
    def headline(self) -> str:
        """The badge and the finding."""
        if self.label_advice is not None:
            return LabelFault(self.finding, self.label_advice).headline
        return f"{self.badge}: {self.finding}."

    @property
    def sentences(self) -> list[str]:
        """What was found, what was claimed and what held, and the role of chance."""
        found = [f"{self.finding[0].upper()}{self.finding[1:]}.", *self.details]
        if self.p_value is not None:
            role = "could explain" if self.p_value > SIGNIFICANT else "does not explain"
            found.append(f"Chance alone {role} the deviation (p = {self.p_value:.3f}).")
        return found

    def lines(self) -> list[str]:
        """The badge and the sentences as indented lines of text."""
        wrapped = (wrap(one, WIDTH, initial_indent="  ", subsequent_indent="    ") for one in self.sentences[1:])
        return [self.headline, *chain.from_iterable(wrapped)]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"level": self.level, "badge": self.badge, "sentences": self.sentences, "p_value": self.p_value}

    def __str__(self) -> str:
        return " ".join((self.headline, *self.sentences[1:]))


def verdict(evaluation: Evaluation) -> Verdict:
    """Return the verdict on an evaluation with examples. It does not depend on the number of resamples.

    Three tests look for a deviation from perfect calibration: of the mean score, of the ECE, and of the mean of the
    high scores. Each may fail once in 60 calibrated classifiers, so at most one in 20 is reported as miscalibrated.
    What a test finds is judged by its size, see `SMALL`, and an error that may be small is never rated as bad. Labels
    that do not fit the predictions are found first: nothing else is worth saying. All
    numbers are rounded before they are judged, so equal words have equal levels.
    """
    examples = evaluation.examples
    assert examples is not None
    if len(examples) < MIN_RESAMPLED:
        return Verdict("unclear", f"too few examples for a verdict ({len(examples)}); hundreds are needed")
    everything, found = Claim.of(examples), high_scores(examples)
    high = None if found is None else Claim.of(found[1], found[0])
    error = round(evaluation.example_metrics["debiased_ece"], everything.digits + 2)
    chances = {
        "mean": chance(examples),
        "spread": chance(examples, len(evaluation.result.bins.count)),
        "high": 1.0 if found is None else chance(found[1]),
    }
    beyond_chance = {name for name, p_value in chances.items() if p_value * TESTS <= SIGNIFICANT}
    p_value = min(1.0, TESTS * min(chances.values()))
    details = [_claim_sentence(everything, "mean" in beyond_chance)]
    if high is not None and high.count < everything.count:
        details.append(_claim_sentence(high, "high" in beyond_chance))
    fault = evaluation.label_fault
    if fault is not None and fault.is_certain:
        return Verdict("bad", fault.finding, [fault.advice, *details], p_value, label_advice=fault.advice)
    if fault is not None:
        details.append(f"{fault.finding[0].upper()}{fault.finding[1:]}. {fault.advice}")
    if not beyond_chance:
        return _no_miscalibration(examples, everything, error, details, p_value)
    finding, level = worst_finding(everything, high, error, beyond_chance)
    return Verdict(level, finding, details, p_value)


class Finding(NamedTuple):
    """A deviation beyond chance in words, and its level."""

    words: str
    level: Level


def worst_finding(everything: Claim, high: Claim | None, error: float, beyond_chance: set[str]) -> Finding:
    """Return the worst of the deviations beyond chance; of equal ones the first."""
    findings = []
    gap = everything.gap
    if "mean" in beyond_chance:
        findings.append(Finding(f"{_gap_words(everything)}{_multiple_words(everything)}", claim_level(everything)))
    if "spread" in beyond_chance:
        level = spread_level(everything, error)
        off = points(error, everything.digits)
        rate = f"at an error rate of {share_text(1 - everything.right, everything.digits)}"
        if "mean" not in beyond_chance:
            where = "right on average, but scores are too high in places and too low in others"
            findings.append(Finding(f"{where}, by {off} {rate}", level))
        elif error >= 2 * abs(gap) or _rank(level) > _rank(findings[0].level):
            findings[0] = Finding(f"{_gap_words(everything)} on average, and scores are off by {off} {rate}", level)
    if high is not None and "high" in beyond_chance:
        where = f"where scores are {high.least:g} or above"
        findings.append(Finding(f"{_gap_words(high)} {where}{_multiple_words(high)}", claim_level(high)))
    return max(findings, key=lambda finding: _rank(finding.level))


def claim_level(claim: Claim) -> Level:
    """Judge the difference between claimed and right. Scores that are too low mislead less than scores too high."""
    size, is_over = abs(claim.gap), claim.gap > 0
    is_certain = size - claim.margin > SMALL or claim.least_multiple > FEW_TIMES
    if size >= LARGE or (is_over and claim.multiple >= MANY_TIMES):
        return "bad" if is_certain else "fair"
    is_small = size <= SMALL and claim.multiple <= (FEW_TIMES if is_over else MANY_TIMES)
    return "near" if is_small else "fair"


def spread_level(everything: Claim, error: float) -> Level:
    """Judge an error that may differ in sign; of its overconfident part, also the share of the error rate."""
    too_high, rate = max(0.0, (error + everything.gap) / 2), 1 - everything.right
    times_claimed = rate / (rate - too_high) if too_high < rate else math.inf if too_high else 1.0
    if error >= LARGE or times_claimed >= MANY_TIMES:
        return "bad" if error - everything.margin > min(SMALL, rate * (1 - 1 / FEW_TIMES)) else "fair"
    return "near" if error <= SMALL and times_claimed <= FEW_TIMES else "fair"


def _rank(level: Level) -> int:
    return list(BADGES).index(level)


def _gap_words(claim: Claim) -> str:
    """The direction and the size of a gap that is beyond chance; a margin of error that contains 0 would deny that."""
    direction = "overconfident" if claim.gap > 0 else "underconfident"
    if claim.margin < abs(claim.gap):
        return f"{direction} by {points(abs(claim.gap), claim.digits, claim.margin)}"
    size = f"{direction} by {points(abs(claim.gap), claim.digits)}"
    bounds = (claim.claimed - float(bound) for bound in wilson_interval(claim.right * claim.count, claim.count))
    low, high = sorted(100 * bound if claim.gap > 0 else -100 * bound for bound in bounds)
    return f"{size} (95 % interval {low:.1f} to {high:.1f})" if low >= 0.05 else size


def _multiple_words(claim: Claim) -> str:
    """The multiple of the claimed errors, if that is worse than the gap in points sounds."""
    is_worse = 0 < claim.gap < LARGE and claim.multiple > FEW_TIMES
    return f", with {times(claim.multiple)} as many errors as claimed" if is_worse else ""


def _claim_sentence(claim: Claim, is_beyond_chance: bool) -> str:
    which = f"Scores of {claim.least:g} and above" if claim.least else "All scores"
    of = f" ({amount(claim.count, 'example')})" if claim.least else ""
    claimed, right = (share_text(share, claim.digits) for share in (claim.claimed, claim.right))
    if claim.claimed == 1 and claim.digits == MAX_DIGITS:
        claimed = f"more than {share_text(1 - 10.0 ** -(MAX_DIGITS + 2), MAX_DIGITS)}"
    sentence = f"{which} claimed {claimed} on average and were right {right} of the time{of}"
    if is_beyond_chance and claim.right == 1:
        return f"{sentence}: there are no errors."
    if is_beyond_chance and claim.multiple >= 1.05:
        frequency = "as frequent as" if claim.gap > 0 else "rarer than"
        return f"{sentence}: errors are {times(claim.multiple)} {frequency} claimed."
    return f"{sentence}."


def _no_miscalibration(
    examples: Examples, everything: Claim, error: float, details: Sequence[str], p_value: float
) -> Verdict:
    """No test finds a deviation: calibrated, unless a large one could go undetected."""
    undetected = max(abs(everything.gap), error) + everything.margin
    undetected = round(max(undetected, _largest_gap(examples)), everything.digits + 2)
    start = f"no miscalibration found in {amount(len(examples), 'example')}"
    if undetected < LARGE:
        return Verdict("good", start, details, p_value)
    needed = math.ceil(len(examples) * (undetected / LARGE) ** 2)
    unseen = points(undetected, everything.digits)
    return Verdict("unclear", f"{start}, but an error of {unseen} could go undetected", details, p_value, needed)


def _largest_gap(examples: Examples) -> float:
    """The largest plausible mean gap, by a Wilson interval: resamples do not vary if all predictions are right."""
    confidence = float(examples.confidence.double().mean())
    low, high = wilson_interval(int(examples.correct.sum()), len(examples))
    return max(confidence - float(low), float(high) - confidence)
