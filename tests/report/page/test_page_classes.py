"""Classes on a page: which of them is unlike the others, and how they are named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from singleshot.metrics import Examples
from singleshot.metrics.examples import ScoredBatch
from singleshot.report.page.classes import AnswerGathering, Answers, odd_class
from singleshot.report.page.text import class_label

NAMES = ("cat", "dog", "owl", "ant")


def remark(seed: int, too_sure: dict[int, float], rows: int = 4000) -> str | None:
    """Four classes, each predicted as often; of these, scores are so much higher than the share of right answers."""
    random = np.random.default_rng(seed)
    predicted = random.integers(0, 4, rows)
    confidence = random.uniform(0.5, 0.9, rows)
    right = random.random(rows) < confidence - np.array([too_sure.get(one, 0.0) for one in range(4)])[predicted]
    probs: Any = np.tile(((1 - confidence) / 3)[:, None], 4)
    probs[np.arange(rows), predicted] = confidence
    labels = np.where(right, predicted, (predicted + 1) % 4)
    gathering = AnswerGathering(4)
    gathering.add(ScoredBatch.of(probs=probs, labels=labels))
    return odd_class(gathering.finish(), Examples.of(probs=probs, labels=labels), NAMES)


def test_a_class_that_is_unlike_the_others_is_named() -> None:
    said = remark(0, {1: 0.3, 0: -0.1, 2: -0.1, 3: -0.1})
    assert said is not None
    assert said.startswith("Not alike for every class: overconfident by ")
    assert " points where it says “dog” (" in said


def test_what_all_classes_share_is_no_oddity() -> None:
    assert remark(0, dict.fromkeys(range(4), 0.2)) is None
    assert remark(0, {0: 0.3}, rows=60) is None  # too few of each
    assert remark(0, {0: 0.0, 1: 0.12, 2: 0.12, 3: 0.12}) is None  # the odd one is the good one


def test_chance_seldom_makes_an_odd_class() -> None:
    assert (
        sum(remark(seed, {}, rows=800) is not None for seed in range(100))
        <= 100 * 0.05 + 3 * (100 * 0.05 * 0.95) ** 0.5
    )


def test_overconfidence_that_all_classes_share_seldom_makes_an_odd_one() -> None:
    random = np.random.default_rng(0)
    named = 0
    for _ in range(40):
        predicted, right = np.repeat(np.arange(100), 100), random.random(10_000) < 0.75
        labels = np.where(right, predicted, (predicted + 1) % 100)
        confidence = torch.full((10_000,), 0.95, dtype=torch.float64)
        examples = replace(
            Examples.of(probs=np.eye(100)[predicted], labels=labels), confidence=confidence, correct=torch.tensor(right)
        )
        named += odd_class(Answers(predicted.astype(np.uint8), labels.astype(np.uint8)), examples, None) is not None
    assert named <= 40 * 0.05 + 3 * (40 * 0.05 * 0.95) ** 0.5


def test_names_that_are_cut_or_blank_are_told_apart() -> None:
    names = ("x" * 300 + "a", "x" * 300 + "b", "  ", "short")
    labels = [class_label(index, names) for index in range(4)]
    assert len(set(labels)) == 4
    assert [len(label) for label in labels[:2]] == [120, 120]
    assert labels[2:] == ["'  ' (2)", "short"]
