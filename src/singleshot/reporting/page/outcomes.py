"""What the predicted classes show: calibration by class, confused classes, and examples to inspect."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from singleshot.common.text import shown
from singleshot.data import Images
from singleshot.evaluation.evaluation import MIN_RESAMPLED
from singleshot.evaluation.formatting import amount, points
from singleshot.evaluation.verdict import LARGE
from singleshot.metrics.examples import Examples

ClassIndices = NDArray[np.unsignedinteger[Any]]

MAX_CLASSES = 1000
MAX_CONFUSIONS = 30
CONFUSION_THRESHOLD = 0.8
MAX_EXAMPLES = 24
IMAGE_SIZE = 48
"""Largest width and height: 48 images take up to 0.5 MB, and a page of eight models stays below 5 MB."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Predicted class, label and confidence of every example."""

    predicted: ClassIndices
    labels: ClassIndices
    examples: Examples
    classes: int  # 0 if it is only known whether each prediction is right
    class_names: tuple[str, ...] | None = None

    def label(self, index: int) -> str:
        """Return the name of a class, or its index; a blank, escaped or truncated name is followed by the index."""
        if self.class_names is None:
            return str(index)
        name = self.class_names[index]
        label = shown(name if name.strip() else repr(name))
        return name if label == name else f"{label} ({index})"


def classes_by_gap(outcomes: Outcomes) -> list[dict[str, Any]]:
    """Return accuracy and confidence per predicted class, sorted by |gap| · √count, the largest first."""
    confidence = outcomes.examples.confidence.double().numpy()
    count = np.bincount(outcomes.predicted)
    correct = np.bincount(outcomes.predicted, outcomes.examples.correct.numpy(), len(count))
    total = np.bincount(outcomes.predicted, confidence, len(count))
    found = np.flatnonzero(count)
    weight = np.abs(total - correct)[found] / np.sqrt(count[found])
    return [
        {
            "class": outcomes.label(one),
            "count": int(count[one]),
            "accuracy": correct[one] / count[one],
            "confidence": total[one] / count[one],
            "gap": (total[one] - correct[one]) / count[one],
        }
        for one in found[np.argsort(-weight, kind="stable")][:MAX_CLASSES]
    ]


def outlier_class(outcomes: Outcomes) -> str | None:
    """Describe the predicted class that is most significantly worse calibrated than the average, if there is one.

    Its gap must be at least `LARGE`, differ by as much from the mean gap, and be farther from 0 or of opposite sign.
    The difference must be significant at 5 %, corrected for the number of classes, if all classes have the mean gap.
    """
    predicted, confidence = outcomes.predicted, outcomes.examples.confidence.double().numpy()
    gaps = confidence - outcomes.examples.correct.numpy()
    mean = gaps.mean()
    accuracy = np.clip(confidence - mean, 0, 1)  # expected, if every score is off by the mean gap
    variances = np.maximum(confidence * (1 - confidence), accuracy * (1 - accuracy))
    count = np.bincount(predicted)
    tested = np.flatnonzero(count >= MIN_RESAMPLED)
    if len(tested) < 2:
        return None
    gap = np.bincount(predicted, gaps)[tested] / count[tested]
    standard_error = np.sqrt(np.bincount(predicted, variances)[tested]) / count[tested]
    difference = np.abs(gap - mean)
    excess = difference - NormalDist().inv_cdf(1 - 0.025 / len(tested)) * standard_error
    is_worse = (np.sign(gap) != np.sign(mean)) | (np.abs(gap) > abs(mean))
    is_outlier = (excess > 0) & (difference >= LARGE) & (np.abs(gap) >= LARGE) & is_worse
    if not is_outlier.any():
        return None
    worst = int(np.argmax(np.where(is_outlier, excess, -np.inf)))
    direction = "overconfident" if gap[worst] > 0 else "underconfident"
    size = amount(int(count[tested[worst]]), "example")
    name = outcomes.label(tested[worst])
    return f"Exception: predictions of “{name}” are {direction} by {points(abs(gap[worst]))} ({size})."


def confusions(outcomes: Outcomes) -> list[dict[str, Any]]:
    """Return the most frequent pairs of label and predicted class among confident mistakes, then by confidence."""
    examples = outcomes.examples
    rows = ((examples.confidence >= CONFUSION_THRESHOLD) & ~examples.correct).nonzero().squeeze(1).numpy()
    pairs = outcomes.labels[rows].astype(np.int64) * outcomes.classes + outcomes.predicted[rows]
    found, group, count = np.unique(pairs, return_inverse=True, return_counts=True)
    total = np.bincount(group, examples.confidence[rows].double().numpy(), len(found))
    order = np.lexsort((-total / np.maximum(count, 1), -count))[:MAX_CONFUSIONS]
    return [
        {
            "label": outcomes.label(found[one] // outcomes.classes),
            "predicted": outcomes.label(found[one] % outcomes.classes),
            "count": int(count[one]),
            "confidence": total[one] / count[one],
        }
        for one in order
    ]


def examples_to_inspect(
    outcomes: Outcomes, images: Images | None = None, positions: Tensor | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Select the most confident mistakes and the least confident correct predictions, with their images if given.

    ``positions`` are the indices of the examples in ``images``, by default their rows.
    """
    examples = outcomes.examples

    def select(mask: Tensor, key: Tensor) -> list[dict[str, Any]]:
        rows = mask.nonzero().squeeze(1)
        order = torch.sort(key[rows], stable=True).indices[:MAX_EXAMPLES]
        return [describe(int(row)) for row in rows[order]]

    def describe(row: int) -> dict[str, Any]:
        index = row if positions is None else int(positions[row])
        return {
            "image": None if images is None else png_data_uri(images.images[index]),
            "label": outcomes.label(outcomes.labels[row]) if outcomes.classes else None,
            "predicted": outcomes.label(outcomes.predicted[row]) if outcomes.classes else None,
            "confidence": float(examples.confidence[row]),
            "index": index,
        }

    return {
        "mistakes": select(~examples.correct, -examples.confidence),
        "correct": select(examples.correct, examples.confidence),
    }


def png_data_uri(image: Tensor) -> str:
    """Encode a uint8 image (C, H, W) as a data URI, reduced to `IMAGE_SIZE`."""
    channels = image if len(image) in {1, 3} else image[:1]  # show the first channel of other images in grey
    pixels = channels.permute(1, 2, 0).contiguous().numpy()
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    picture.thumbnail((IMAGE_SIZE, IMAGE_SIZE))
    file = io.BytesIO()
    picture.save(file, format="PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
