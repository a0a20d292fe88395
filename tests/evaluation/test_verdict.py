"""Verdicts on classifiers of known calibration."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from singleshot.evaluation.claims import Claim, chance
from singleshot.evaluation.evaluation import evaluate_batches
from singleshot.evaluation.verdict import BADGES, SIGNIFICANT, Level, Verdict, claim_level, verdict
from singleshot.metrics.examples import Examples
from singleshot.metrics.significance import consistency_test

LEVELS = list(BADGES)  # from the best to the worst
STARTS = {
    "good": "no miscalibration found in ",
    "unclear": "no miscalibration found in .*, but an error of .* could go undetected|too few examples",
    "near": "overconfident by |underconfident by |right on average, but ",
    "fair": "overconfident by |underconfident by |right on average, but ",
    "bad": "overconfident by |underconfident by |right on average, but ",
}


def verdict_on_logits(factor: float, rows: int, replicates: int | None = 100) -> Verdict:
    """Verdict on calibrated logits that are multiplied by a factor."""
    random = np.random.default_rng(3)
    logits = random.normal(size=(rows, 4)) * 1.5
    labels = (logits + random.gumbel(size=logits.shape)).argmax(1)
    batch = {"logits": logits * factor, "labels": labels}
    return verdict(evaluate_batches([batch], replicates=replicates, keep_examples=True))


def verdict_on_two_classes(confidence: Any, right: Any) -> Verdict:
    """Verdict on two classes, of which the first is always predicted."""
    batch = {"probs": np.stack([confidence, 1 - confidence], 1), "labels": 1 - right.astype(int)}
    return verdict(evaluate_batches([batch], replicates=0, keep_examples=True))


def verdict_on_constant(accuracy: float, claimed: float, count: int) -> Verdict:
    """Verdict on equal scores."""
    return verdict_on_two_classes(np.full(count, claimed), np.arange(count) < round(accuracy * count))


def check_story(found: Verdict) -> None:
    """Badge, sentences and test agree."""
    text = str(found)
    assert text.startswith(f"{found.badge}: ")
    assert re.match(STARTS[found.level], found.finding), text
    if found.p_value is None:
        assert found.level == "unclear"
        return
    is_found = found.p_value <= SIGNIFICANT
    assert is_found == (found.level in {"near", "fair", "bad"}), text
    assert ("Chance alone does not explain" in text) == is_found
    assert ("times as frequent as claimed" in text or "rarer than claimed" in text) <= is_found
    claims = re.findall(
        r"claimed (?:more than )?([\d.]+) % on average and were right ([\d.]+) % of the time(.*?)\.", text
    )
    for claimed, right, rest in claims:
        if "times as frequent" in rest:
            assert float(claimed) > float(right), text
        if "rarer" in rest:
            assert float(claimed) < float(right), text
    if found.finding.startswith("overconfident by ") and "where" not in found.finding:
        assert float(claims[0][0]) > float(claims[0][1]), text
    if found.finding.startswith("underconfident by ") and "where" not in found.finding:
        assert float(claims[0][0]) < float(claims[0][1]), text


@pytest.mark.parametrize("count", [50, 400, 5000])
@pytest.mark.parametrize("accuracy", [0.52, 0.7, 0.9, 0.96, 0.99])
def test_worse_is_never_called_better(accuracy: float, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singleshot.evaluation.claims.SIMULATIONS", 200)
    gaps = [0, 0.001, 0.004, 0.01, 0.0199, 0.025, 0.035, 0.0475, 0.051, 0.1, 0.2, 0.4]
    for sign in (1, -1):
        claims = [accuracy + sign * gap for gap in gaps]
        found = [verdict_on_constant(accuracy, claimed, count) for claimed in claims if 0.5 < claimed < 1]
        levels = [LEVELS.index(one.level) for one in found]
        assert levels == sorted(levels), [str(one) for one in found]
        for one in found:
            check_story(one)


def test_rounding_never_shows_the_same_number_with_two_badges() -> None:
    for accuracy, count in itertools.product((0.6, 0.9, 0.928, 0.96, 0.99, 0.999), (1000, 10_000)):
        badges: dict[str, Level] = {}
        levels = []
        for claimed in np.arange(accuracy + 1e-4, min(accuracy + 0.08, 1 - 1e-6), 1e-4):
            claim = claim_of(accuracy, claimed, count)
            levels.append(LEVELS.index(claim_level(claim)))
            shown = f"{claim.gap:.6f}"
            assert badges.setdefault(shown, claim_level(claim)) == claim_level(claim), (accuracy, count, shown)
        assert levels == sorted(levels), (accuracy, count)
        assert len(set(badges.values())) > 1


def claim_of(accuracy: float, claimed: float, count: int) -> Claim:
    correct = torch.arange(count) < round(accuracy * count)
    confidence = torch.full((count,), float(claimed), dtype=torch.float64)
    return Claim.of(Examples(confidence, correct, confidence, confidence))


def test_the_same_words_have_the_same_badge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singleshot.evaluation.claims.SIMULATIONS", 100)
    badges: dict[tuple[str, ...], str] = {}
    for gap in np.arange(0.0465, 0.0525, 0.0002):  # 4.75 and 5.1 were both shown as 5 points, with two badges
        found = verdict_on_constant(0.7, 0.7 + gap, 4000)
        words = tuple(found.sentences[:-1])
        assert badges.setdefault(words, found.badge) == found.badge
    assert set(badges.values()) == {"Somewhat off", "Miscalibrated"}


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_badge_sentence_and_test_tell_one_story(data: st.DataObject) -> None:
    seed, count = data.draw(st.integers(0, 10_000)), data.draw(st.sampled_from([30, 300, 2000]))
    random = np.random.default_rng(seed)
    low = data.draw(st.sampled_from([0.5, 0.9, 0.999]))
    confidence = random.uniform(low, 1, count)
    power = data.draw(st.sampled_from([0.3, 0.8, 1.0, 1.3, 4.0]))
    check_story(verdict_on_two_classes(confidence, random.random(count) < confidence**power))


def test_the_fast_test_agrees_with_the_exact_one() -> None:
    random = np.random.default_rng(0)
    for _ in range(12):
        confidence = 1 - random.uniform(0, 0.5, 1500) ** random.integers(1, 12, 1500)  # many are close to 1
        right = random.random(1500) < confidence ** random.uniform(0.8, 1.4)
        probs = np.stack([confidence, 1 - confidence], 1)
        examples = Examples.of(probs=probs, labels=1 - right.astype(int))
        for bins, statistic in ((1, "total"), (20, "ece"), (7, "ece")):
            expected = consistency_test(examples, statistic=statistic, replicates=1000, bins=bins).p_value
            assert chance(examples, bins) == pytest.approx(expected, abs=4 * (2 * 0.25 / 1000) ** 0.5)


def test_errors_are_a_multiple_of_the_claimed_ones_where_scores_are_high() -> None:
    random = np.random.default_rng(0)
    confidence = np.r_[np.full(8000, 0.9975), random.uniform(0.5, 0.85, 2000)]
    right = np.r_[np.arange(8000) < 7668, random.random(2000) < 0.6]
    found = verdict_on_two_classes(confidence, right)
    assert found.details[1] == (
        "Scores of 0.9 and above claimed 99.75 % on average and were right 95.85 % of the time (8,000 examples): "
        "errors are 16.6 times as frequent as claimed."
    )
    assert found.level == "bad"


def test_a_small_gap_is_judged_by_the_error_rate() -> None:
    assert verdict_on_constant(0.6, 0.61, 20_000).level == "near"
    found = verdict_on_constant(0.98, 0.99, 20_000)  # the same gap
    assert found.level == "bad"
    assert found.lines() == [
        "Miscalibrated: overconfident by 1 point, with 2 times as many errors as claimed.",
        "  All scores claimed 99 % on average and were right 98 % of the time: errors are 2 times as frequent",
        "    as claimed.",
        "  Chance alone does not explain the deviation (p = 0.003).",
    ]
    assert verdict_on_constant(0.99, 0.97, 20_000).level == "fair"  # three times rarer: the error is on the safe side


def test_a_deviation_beyond_chance_has_no_interval_around_zero() -> None:
    for wrong in range(5, 40):
        found = verdict_on_constant(1 - wrong / 83, 0.95, 83)
        for size, margin in re.findall(r"by ([0-9.]+) ± ([0-9.]+) points", found.finding):
            assert float(size) > float(margin), found.headline
    assert "overconfident by 7 points (95 % interval 1.6 to 15.7)" in verdict_on_constant(73 / 83, 0.95, 83).headline


def test_over_and_underconfident() -> None:
    found = verdict_on_logits(3, 4000)
    assert found.finding.startswith("overconfident by 2")
    assert found.level == "bad"
    assert str(verdict_on_logits(3, 4000, replicates=0)) == str(found)
    found = verdict_on_logits(0.4, 4000)
    assert found.finding.startswith("underconfident by ")
    assert found.level == "bad"


@pytest.mark.parametrize(
    ("rows", "start", "expected"),
    [
        (8000, "Calibrated: no miscalibration found in 8,000 examples. All scores claimed ", "good"),
        (60, "Unclear: no miscalibration found in 60 examples, but an error of ", "unclear"),
        (20, "Unclear: too few examples for a verdict (20);", "unclear"),
    ],
)
def test_calibrated(rows: int, start: str, expected: Level) -> None:
    found = verdict_on_logits(1, rows)
    assert str(found).startswith(start)
    assert found.level == expected


@pytest.mark.parametrize(
    ("confidence", "count", "start", "expected"),
    [
        (0.93, 40, "Unclear: no miscalibration found in 40 examples, but ", "unclear"),  # 0.93^40 = 0.055: chance
        (0.93, 400, "Miscalibrated: underconfident by 7 ± 2.9 points. ", "bad"),
        (1 - 1e-9, 400, "Calibrated: no miscalibration found in 400 examples. ", "good"),
        # Wilson: with 50 of 50 right, the true accuracy may be 0.929
        (0.999, 50, "Unclear: no miscalibration found in 50 examples, but an error of 7.03 points could go", "unclear"),
    ],
)
def test_all_right(confidence: float, count: int, start: str, expected: Level) -> None:
    found = verdict_on_two_classes(np.full(count, confidence), np.ones(count))
    assert str(found).startswith(start)
    assert found.level == expected
    assert "times" not in str(found)


def test_mean_gap_and_binned_error() -> None:
    # gaps of 0.085 and −0.035: 0.025 on average, 0.06 per bin, which decides the level
    right = np.r_[np.arange(2000) < 1810, np.arange(2000) < 1270]
    found = verdict_on_two_classes(np.repeat([0.99, 0.6], 2000), right)
    assert found.finding == (
        "overconfident by 2.5 ± 1.4 points on average, and scores are off by 6 points at an error rate of 23 %"
    )
    assert found.level == "bad"
    # gaps that cancel: both are right in 80 %
    right = np.tile(np.arange(1000) % 5 != 0, 2)
    found = verdict_on_two_classes(np.repeat([0.95, 0.65], 1000), right)
    assert found.finding.startswith("right on average, but scores are too high in places and too low in others, by 15 ")
    assert "Scores of 0.9 and above claimed 95 % on average and were right 80 % of the time (1,000 ex" in str(found)
    assert found.level == "bad"


def test_errors_of_high_scores_alone_are_found() -> None:
    # 5,000 scores of 0.999 with 15 errors for the claimed 5, hidden by 5,000 calibrated scores of 0.6
    right = np.r_[np.arange(5000) >= 15, np.arange(5000) < 3000]
    found = verdict_on_two_classes(np.repeat([0.999, 0.6], 5000), right)
    assert found.finding == (
        "overconfident by 0.2 ± 0.17 points where scores are 0.9 or above, with 3 times as many errors as claimed"
    )
    assert found.level == "bad"
    assert "errors are 3 times as frequent as claimed" in found.details[1]


def test_high_scores_include_the_threshold() -> None:
    right = np.arange(1000) % 10 != 0
    found = verdict_on_two_classes(np.r_[np.repeat([0.9, 0.95], 450), np.full(100, 0.6)], right)
    assert "Scores of 0.9 and above claimed 92.5 % on average" in str(found)
    assert "(900 examples)" in str(found)


def test_calibrated_classifiers_are_rarely_reported_as_miscalibrated() -> None:
    random = np.random.default_rng(0)
    levels = []
    for _ in range(150):
        confidence = random.uniform(0.5, 1, 100)
        levels.append(verdict_on_two_classes(confidence, random.random(100) < confidence).level)
    reported = len(levels) - levels.count("good") - levels.count("unclear")
    assert reported <= 150 * 0.05 + 3 * (150 * 0.05 * 0.95) ** 0.5
    assert levels.count("bad") <= 4
