"""Verdicts on classifiers of known calibration, and advice on the disagreement measure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from singleshot.evaluation.evaluation import evaluate_batches
from singleshot.evaluation.verdict import Tone, verdict


def verdict_on_logits(factor: float, rows: int, replicates: int | None = 100) -> tuple[str, Tone]:
    """Verdict on calibrated logits that are multiplied by a factor."""
    random = np.random.default_rng(3)
    logits = random.normal(size=(rows, 4)) * 1.5
    labels = (logits + random.gumbel(size=logits.shape)).argmax(1)
    batch = {"logits": logits * factor, "labels": labels}
    return verdict(evaluate_batches([batch], replicates=replicates, keep_examples=True))


def verdict_on_two_classes(confidence: Any, right: Any) -> tuple[str, Tone]:
    """Verdict on two classes, of which the first is always predicted."""
    batch = {"probs": np.stack([confidence, 1 - confidence], 1), "labels": 1 - right.astype(int)}
    return verdict(evaluate_batches([batch], replicates=100, keep_examples=True, test_calibration=False))


def test_over_and_underconfident() -> None:
    sentence, tone = verdict_on_logits(3, 4000)
    assert sentence.startswith("Overconfident by 2")
    assert " points; scores of 0.9 and above are right " in sentence
    assert sentence.endswith(" examples).")
    assert tone == "bad"
    assert verdict_on_logits(3, 4000, replicates=0)[0] == sentence
    sentence, tone = verdict_on_logits(0.4, 4000)
    assert sentence.startswith("Underconfident by ")
    assert tone == "bad"


@pytest.mark.parametrize(
    ("rows", "replicates", "start", "expected"),
    [
        (8000, 100, "No miscalibration found in 8,000 examples; scores of 0.9 and above are right 9", "good"),
        (8000, 0, "No miscalibration found in 8,000 examples", "good"),
        (60, 100, "No miscalibration found in 60 examples, but an error of ", "unclear"),
        (20, 100, "Too few examples for a verdict: 20", "unclear"),
    ],
)
def test_calibrated(rows: int, replicates: int, start: str, expected: Tone) -> None:
    sentence, tone = verdict_on_logits(1, rows, replicates)
    assert sentence.startswith(start)
    assert tone == expected


@pytest.mark.parametrize(
    ("confidence", "count", "start", "expected"),
    [
        (0.93, 40, "No miscalibration found in 40 examples, but ", "unclear"),  # 0.93^40 = 0.055: chance
        (0.93, 400, "Underconfident by 7 ± 3 points; ", "bad"),
        (1 - 1e-9, 400, "No miscalibration found in 400 examples; ", "good"),
        # Wilson: with 50 of 50 right, the true accuracy may be 0.929
        (0.999, 50, "No miscalibration found in 50 examples, but an error of 7 points could go undetected", "unclear"),
    ],
)
def test_all_right(confidence: float, count: int, start: str, expected: Tone) -> None:
    sentence, tone = verdict_on_two_classes(np.full(count, confidence), np.ones(count))
    assert sentence.startswith(start)
    assert tone == expected


def test_mean_gap_and_binned_error() -> None:
    # 0.8 confident on average and right in 39 of 60: 2.4 standard errors, while the interval of the ECE starts at 0
    right = np.ones(60)
    right[np.linspace(0, 59, 21).astype(int)] = 0
    sentence, tone = verdict_on_two_classes(np.linspace(0.62, 0.98, 60), right)
    assert sentence.startswith("Overconfident by 15 ± 14 points; ")
    assert tone == "fair"  # the gap may be small
    # gaps of 0.085 and −0.035: 0.025 on average, 0.06 per bin, which decides the tone
    right = np.r_[np.arange(2000) < 1810, np.arange(2000) < 1270]
    sentence, tone = verdict_on_two_classes(np.repeat([0.99, 0.6], 2000), right)
    assert sentence.startswith("Overconfident by 2 ± 1 points on average, with scores off by 6 points in either")
    assert tone == "bad"
    # gaps of 0.33 and −0.22: 0.055 on average, 0.275 per bin
    right = np.r_[np.arange(500) < 330, np.arange(500) < 410]
    sentence, tone = verdict_on_two_classes(np.repeat([0.99, 0.6], 500), right)
    assert sentence.startswith("Overconfident by 6 ± 4 points on average, with scores off by 28 points in either")
    assert tone == "bad"
    # gaps that cancel: both are right in 80 %
    right = np.tile(np.arange(1000) % 5 != 0, 2)
    sentence, tone = verdict_on_two_classes(np.repeat([0.95, 0.65], 1000), right)
    assert sentence.startswith("Calibrated on average, but scores are off by 15 points")
    assert "scores of 0.9 and above are right 80 % of the time (1,000 examples)" in sentence
    assert tone == "bad"


def test_high_scores_include_the_threshold() -> None:
    right = np.arange(1000) % 10 != 0
    sentence, _ = verdict_on_two_classes(np.repeat([0.9, 0.95], 500), right)
    assert "scores of 0.9 and above are right 90 % of the time (1,000 examples)" in sentence


def test_calibrated_classifiers_are_rarely_reported_as_miscalibrated() -> None:
    random = np.random.default_rng(0)
    tones = []
    for _ in range(150):
        confidence = random.uniform(0.5, 1, 100)
        sentence, tone = verdict_on_two_classes(confidence, random.random(100) < confidence)
        tones.append(tone if not sentence.startswith("No miscalibration found") else "none")
    reported = len(tones) - tones.count("none")
    assert reported <= 150 * 0.075 + 3 * (150 * 0.075 * 0.925) ** 0.5
    assert tones.count("bad") <= 4
