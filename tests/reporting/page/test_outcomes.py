"""Classes and examples of the page: outlier classes of known classifiers, class names, and images."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import torch
from PIL import Image

from singleshot.data import Images
from singleshot.metrics import Examples
from singleshot.reporting.page.outcomes import MAX_EXAMPLES, Outcomes, examples_to_inspect, outlier_class, png_data_uri

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


def test_truncated_and_blank_class_names_stay_distinct() -> None:
    names = ("x" * 300 + "a", "x" * 300 + "b", "  ", "short")
    indices = np.zeros(1, dtype=np.uint8)
    outcomes = Outcomes(indices, indices, Examples.of(probs=[[1.0]], labels=[0]), 4, names)
    labels = [outcomes.label(index) for index in range(4)]
    assert len(set(labels)) == 4
    assert [len(label) for label in labels[:2]] == [124, 124]
    assert labels[2:] == ["'  ' (2)", "short"]


def test_an_image_is_a_png_that_is_never_enlarged() -> None:
    shapes: list[tuple[int, ...]] = [(1, 8, 8), (3, 32, 32), (3, 100, 50), (4, 8, 8)]
    for shape in shapes:
        image = torch.randint(0, 256, shape, dtype=torch.uint8)
        kind, _, content = png_data_uri(image).partition(",")
        assert kind == "data:image/png;base64"
        with Image.open(io.BytesIO(base64.b64decode(content))) as picture:
            assert picture.size == ((24, 48) if shape[1] == 100 else shape[:0:-1])
            pixels: Any = np.asarray(picture)
        if shape[1] < 100:
            expected = image[: 3 if shape[0] == 3 else 1].permute(1, 2, 0).squeeze(2).numpy()
            assert (pixels == expected).all()


def test_the_most_confident_mistakes_and_the_least_confident_correct_predictions_are_selected() -> None:
    random = np.random.default_rng(0)
    logits, labels = random.normal(size=(300, 3)), random.integers(0, 3, 300)
    images = Images(torch.zeros(400, 1, 8, 8, dtype=torch.uint8), torch.zeros(400, dtype=torch.int64))
    examples = Examples.of(logits=logits, labels=labels)
    predicted = logits.argmax(1)
    outcomes = Outcomes(predicted.astype(np.uint8), labels.astype(np.uint8), examples, 3, ("x", "y", "z"))
    found = examples_to_inspect(outcomes, images, torch.arange(100, 400))
    confidence = examples.confidence.numpy()
    for part, chosen, sign in (("mistakes", predicted != labels, -1), ("correct", predicted == labels, 1)):
        rows = np.flatnonzero(chosen)
        expected = rows[np.argsort(sign * confidence[rows], kind="stable")][:MAX_EXAMPLES]
        assert [entry["index"] - 100 for entry in found[part]] == expected.tolist()
        for entry in found[part]:
            row = entry["index"] - 100
            assert entry["label"] == "xyz"[labels[row]]
            assert entry["predicted"] == "xyz"[predicted[row]]
            assert entry["confidence"] == confidence[row]
