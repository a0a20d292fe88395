"""Calibration of each predicted class, and pairs of classes that confident mistakes confuse."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from singleshot.evaluation.evaluation import MIN_RESAMPLED
from singleshot.evaluation.formatting import amount, points
from singleshot.evaluation.verdict import LARGE
from singleshot.metrics.examples import Examples
from singleshot.report.page.labels import class_label

ClassIndices = NDArray[np.unsignedinteger[Any]]

MAX_CLASSES = 1000
MAX_CONFUSIONS = 30
CONFUSION_THRESHOLD = 0.8


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Predicted class, label and confidence of every example."""

    predicted: ClassIndices
    labels: ClassIndices
    examples: Examples
    classes: int
    class_names: tuple[str, ...] | None = None

    def label(self, index: int) -> str:
        """Return the displayed name of a class."""
        return class_label(int(index), self.class_names)


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
