"""Outlier classes of the page, on classifiers whose calibration is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from singleshot.metrics import Examples
from singleshot.report.page.classes import Outcomes, outlier_class

NAMES = ("cat", "dog", "owl", "ant")


def outlier(seed: int, overconfidence: dict[int, float], rows: int = 4000) -> str | None:
    """Four equally frequent classes, some with a given gap between confidence and accuracy."""
    random = np.random.default_rng(seed)
    predicted = random.integers(0, 4, rows)
    confidence = random.uniform(0.5, 0.9, rows)
    right = random.random(rows) < confidence - np.array([overconfidence.get(one, 0.0) for one in range(4)])[predicted]
    probs: Any = np.tile(((1 - confidence) / 3)[:, None], 4)
    probs[np.arange(rows), predicted] = confidence
    labels = np.where(right, predicted, (predicted + 1) % 4)
    examples = Examples.of(probs=probs, labels=labels)
    return outlier_class(Outcomes(predicted.astype(np.uint8), labels.astype(np.uint8), examples, 4, NAMES))


def test_a_class_that_differs_from_the_others_is_named() -> None:
    found = outlier(0, {1: 0.3, 0: -0.1, 2: -0.1, 3: -0.1})
    assert found is not None
    assert found.startswith("Exception: predictions of “dog” are overconfident by ")
    assert found.endswith(" examples).")


def test_a_gap_that_all_classes_share_is_no_outlier() -> None:
    assert outlier(0, dict.fromkeys(range(4), 0.2)) is None
    assert outlier(0, {0: 0.3}, rows=60) is None  # too few examples per class
    assert outlier(0, {0: 0.0, 1: 0.12, 2: 0.12, 3: 0.12}) is None  # the class that differs is the calibrated one


def test_false_positives_are_rare() -> None:
    found = sum(outlier(seed, {}, rows=800) is not None for seed in range(100))
    assert found <= 100 * 0.05 + 3 * (100 * 0.05 * 0.95) ** 0.5
    random = np.random.default_rng(0)
    found = 0
    for _ in range(40):  # overconfidence that all of 100 classes share
        predicted, right = np.repeat(np.arange(100), 100), random.random(10_000) < 0.75
        labels = np.where(right, predicted, (predicted + 1) % 100)
        confidence = torch.full((10_000,), 0.95, dtype=torch.float64)
        values = torch.zeros(10_000)
        examples = Examples(confidence, torch.tensor(right), values, values)
        outcomes = Outcomes(predicted.astype(np.uint8), labels.astype(np.uint8), examples, 100)
        found += outlier_class(outcomes) is not None
    assert found <= 40 * 0.05 + 3 * (40 * 0.05 * 0.95) ** 0.5
