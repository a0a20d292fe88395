"""Verdicts: what is said of classifiers whose calibration is known, and what is not claimed of few examples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from singleshot.predictions import read_predictions
from singleshot.report.page.subject import measure
from singleshot.report.page.verdict import Tone, verdict


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
    assert " points: scores above 0.9 are right " in sentence
    assert sentence.endswith(" of them).")
    assert tone == "bad"


def test_underconfident(tmp_path: Path) -> None:
    sentence, tone = judged(tmp_path, 0.4, 4000)
    assert sentence.startswith("Underconfident by ")
    assert tone == "bad"


@pytest.mark.parametrize(
    ("rows", "start", "expected"),
    [
        (8000, "No miscalibration shows in 8,000 examples: scores above 0.9 are right 9", "good"),
        (60, "No miscalibration shows in 60 examples, but so few could hide an error of ", "fair"),
        (20, "Too few to judge: 20 examples", "fair"),
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


def test_gaps_that_cancel_out(tmp_path: Path) -> None:
    probs = np.repeat([[0.95, 0.05], [0.65, 0.35]], 1000, axis=0)
    labels = np.r_[np.arange(1000) % 5 == 0, np.arange(1000) % 5 == 0].astype(int)  # both are right in 80 %
    np.savez(tmp_path / "p.npz", probs=probs, labels=labels)
    sentence, tone = verdict(measure(read_predictions(tmp_path / "p.npz"), 100).evaluation)
    assert sentence.startswith("Right on average, but off by 15 points score by score")
    assert "scores above 0.9 are right 80 % of the time (1,000 of them)" in sentence
    assert tone == "bad"
