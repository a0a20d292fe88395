"""Verdicts: what is said of classifiers whose calibration is known, and what is not claimed of few examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from singleshot.evaluation.verdict import Tone, verdict
from singleshot.predictions import read_predictions
from singleshot.report.page.subject import measure


def judged(folder: Path, sharper: float, rows: int, replicates: int | None = 100) -> tuple[str, Tone]:
    """Logits whose softmax was the truth before they were multiplied."""
    random = np.random.default_rng(3)
    logits = random.normal(size=(rows, 4)) * 1.5
    labels = (logits + random.gumbel(size=logits.shape)).argmax(1)
    np.savez(folder / "p.npz", logits=logits * sharper, labels=labels)
    return verdict(measure(read_predictions(folder / "p.npz"), replicates).evaluation)


def test_overconfident(tmp_path: Path) -> None:
    sentence, tone = judged(tmp_path, 3, 4000)
    assert sentence.startswith("Overconfident by 2")
    assert " points; scores of 0.9 and above are right " in sentence
    assert sentence.endswith(" of them).")
    assert tone == "bad"


def test_underconfident(tmp_path: Path) -> None:
    sentence, tone = judged(tmp_path, 0.4, 4000)
    assert sentence.startswith("Underconfident by ")
    assert tone == "bad"


@pytest.mark.parametrize(
    ("rows", "start", "expected"),
    [
        (8000, "No miscalibration shows in 8,000 examples; scores of 0.9 and above are right 9", "good"),
        (60, "No miscalibration shows in 60 examples, but so few could hide an error of ", "unclear"),
        (20, "Too few to judge: 20 examples", "unclear"),
    ],
)
def test_calibrated(rows: int, start: str, expected: Tone, tmp_path: Path) -> None:
    sentence, tone = judged(tmp_path, 1, rows)
    assert sentence.startswith(start)
    assert tone == expected


def test_without_intervals_chance_is_still_not_blamed(tmp_path: Path) -> None:
    assert judged(tmp_path, 3, 4000, replicates=0)[0] == judged(tmp_path, 3, 4000)[0]
    sentence, tone = judged(tmp_path, 1, 8000, replicates=0)
    assert sentence.startswith("No miscalibration shows in 8,000 examples")
    assert tone == "good"


def of_two(folder: Path, confidence: Any, right: Any) -> tuple[str, Tone]:
    """Two classes, of which the first is predicted."""
    np.savez(folder / "p.npz", probs=np.stack([confidence, 1 - confidence], 1), labels=1 - right.astype(int))
    return verdict(measure(read_predictions(folder / "p.npz"), 100).evaluation)


@pytest.mark.parametrize(
    ("confidence", "count", "start", "expected"),
    [
        (0.93, 40, "No miscalibration shows in 40 examples, but so few", "unclear"),  # 0.93^40 = 0.055: it may happen
        (0.93, 400, "Underconfident by 7 ± 3 points; ", "bad"),
        (1 - 1e-9, 400, "No miscalibration shows in 400 examples; ", "good"),
        # Wilson: of 50 right answers in 50, the true accuracy may be 0.929
        (0.999, 50, "No miscalibration shows in 50 examples, but so few could hide an error of 7 points", "unclear"),
    ],
)
def test_all_right(confidence: float, count: int, start: str, expected: Tone, tmp_path: Path) -> None:
    sentence, tone = of_two(tmp_path, np.full(count, confidence), np.ones(count))
    assert sentence.startswith(start)
    assert tone == expected


def test_what_the_mean_shows_and_the_bins_do_not_is_bad_as_well(tmp_path: Path) -> None:
    # 0.8 sure on average and right in 39 of 60: 2.4 standard errors, while the interval of the ECE starts at 0
    right = np.ones(60)
    right[np.linspace(0, 59, 21).astype(int)] = 0
    sentence, tone = of_two(tmp_path, np.linspace(0.62, 0.98, 60), right)
    assert sentence.startswith("Overconfident by 15 ± 14 points; ")
    assert tone == "fair"  # it may be hardly more than nothing


def test_what_decides_the_tone_is_named(tmp_path: Path) -> None:
    # gaps of 0.085 and −0.035: 0.025 on average, 0.06 score by score
    right = np.r_[np.arange(2000) < 1810, np.arange(2000) < 1270]
    sentence, tone = of_two(tmp_path, np.repeat([0.99, 0.6], 2000), right)
    assert sentence.startswith("Overconfident by 2 ± 1 points on average, and off by 6 points score by score; ")
    assert tone == "bad"


def test_a_score_itself_is_among_those_at_and_above_it(tmp_path: Path) -> None:
    right = np.arange(1000) % 10 != 0
    sentence, _ = of_two(tmp_path, np.repeat([0.9, 0.95], 500), right)
    assert "scores of 0.9 and above are right 90 % of the time (1,000 of them)" in sentence


def test_calibrated_classifiers_are_rarely_found_to_be_off_and_hardly_ever_called_bad(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    tones = []
    for _ in range(150):
        confidence = random.uniform(0.5, 1, 100)
        sentence, tone = of_two(tmp_path, confidence, random.random(100) < confidence)
        tones.append(tone if not sentence.startswith("No miscalibration shows") else "none")
    off = len(tones) - tones.count("none")
    assert off <= 150 * 0.075 + 3 * (150 * 0.075 * 0.925) ** 0.5
    assert tones.count("bad") <= 4


def test_what_is_off_on_average_is_not_called_right_on_average(tmp_path: Path) -> None:
    # gaps of 0.33 and −0.22: 0.055 on average, 0.275 score by score
    right = np.r_[np.arange(500) < 330, np.arange(500) < 410]
    sentence, tone = of_two(tmp_path, np.repeat([0.99, 0.6], 500), right)
    assert sentence.startswith("Overconfident by 6 ± 4 points on average, and off by 28 points score by score; ")
    assert tone == "bad"


def test_gaps_that_cancel_out(tmp_path: Path) -> None:
    right = np.tile(np.arange(1000) % 5 != 0, 2)  # both are right in 80 %
    sentence, tone = of_two(tmp_path, np.repeat([0.95, 0.65], 1000), right)
    assert sentence.startswith("Right on average, but off by 15 points score by score")
    assert "scores of 0.9 and above are right 80 % of the time (1,000 of them)" in sentence
    assert tone == "bad"
