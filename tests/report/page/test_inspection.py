"""Examples to inspect and their images."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import torch
from PIL import Image

from singleshot.data import Images
from singleshot.metrics import Examples
from singleshot.report.page.classes import Outcomes
from singleshot.report.page.inspection import MAX_EXAMPLES, examples_to_inspect, png_data_uri


def test_an_image_is_a_png_that_is_never_enlarged() -> None:
    shapes: list[tuple[int, ...]] = [(1, 8, 8), (3, 32, 32), (3, 100, 50), (4, 8, 8)]
    for shape in shapes:
        image = torch.randint(0, 256, shape, dtype=torch.uint8)
        kind, _, content = png_data_uri(image).partition(",")
        assert kind == "data:image/png;base64"
        with Image.open(io.BytesIO(base64.b64decode(content))) as picture:
            assert picture.size == ((32, 64) if shape[1] == 100 else shape[:0:-1])
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
