"""Which classes were predicted: how far the confidence in each can be trusted, and what confident mistakes confuse."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from singleshot.evaluation.core import MIN_RESAMPLED
from singleshot.evaluation.formatting import amount, points
from singleshot.evaluation.verdict import LARGE
from singleshot.metrics.examples import Examples, ScoredBatch
from singleshot.report.page.text import class_label

Codes = NDArray[np.unsignedinteger[Any]]

MOST_CLASSES = 1000
MOST_CONFUSIONS = 30
CONFUSION_THRESHOLD = 0.8


@dataclass(frozen=True, eq=False)
class Answers:
    """The predicted class and the label of every example, in as few bytes as the number of classes allows."""

    predicted: Codes
    labels: Codes


class AnswerGathering:
    """Collects answers batch by batch, as a `Calibration` is updated."""

    def __init__(self, classes: int) -> None:
        self._dtype = np.min_scalar_type(max(classes - 1, 0))
        self._predicted: list[Codes] = []
        self._labels: list[Codes] = []

    def add(self, batch: ScoredBatch) -> None:
        """Add a batch."""
        self._predicted.append(batch.predicted().numpy().astype(self._dtype))
        self._labels.append(batch.labels.numpy().astype(self._dtype))

    def finish(self) -> Answers:
        """All answers so far, in the order they came."""
        return Answers(np.concatenate(self._predicted), np.concatenate(self._labels))


def classes_by_gap(answers: Answers, examples: Examples, names: tuple[str, ...] | None) -> list[dict[str, Any]]:
    """Per predicted class its accuracy and confidence; large gaps of many examples first, by |gap| · √count."""
    confidence = examples.confidence.double().numpy()
    count = np.bincount(answers.predicted)
    correct = np.bincount(answers.predicted, examples.correct.numpy(), len(count))
    total = np.bincount(answers.predicted, confidence, len(count))
    there = np.flatnonzero(count)
    worth = np.abs(total - correct)[there] / np.sqrt(count[there])
    worst = there[np.argsort(-worth, kind="stable")][:MOST_CLASSES]
    return [
        {
            "class": class_label(int(one), names),
            "count": int(count[one]),
            "accuracy": correct[one] / count[one],
            "confidence": total[one] / count[one],
            "gap": (total[one] - correct[one]) / count[one],
        }
        for one in worst
    ]


def odd_class(answers: Answers, examples: Examples, names: tuple[str, ...] | None) -> str | None:
    """The predicted class whose scores are worse than those of all in a way chance explains least; None without one.

    Its gap must be `LARGE` and differ by as much from the mean gap, on its far side or beyond 0, and by more than
    chance would make any class differ in 5 of 100 cases where all have the mean gap.
    """
    confidence = examples.confidence.double().numpy()
    gaps = confidence - examples.correct.numpy()
    likely = np.clip(confidence - gaps.mean(), 0, 1)  # to be right, if all scores are off by the same
    variances = np.maximum(confidence * (1 - confidence), likely * (1 - likely))
    count = np.bincount(answers.predicted)
    judged = np.flatnonzero(count >= MIN_RESAMPLED)
    if len(judged) < 2:
        return None
    gap = np.bincount(answers.predicted, gaps)[judged] / count[judged]
    by_chance = np.sqrt(np.bincount(answers.predicted, variances)[judged]) / count[judged]
    differs = np.abs(gap - gaps.mean())
    beyond = differs - NormalDist().inv_cdf(1 - 0.025 / len(judged)) * by_chance
    is_worse = (np.sign(gap) != np.sign(gaps.mean())) | (np.abs(gap) > abs(gaps.mean()))
    is_odd = (beyond > 0) & (differs >= LARGE) & (np.abs(gap) >= LARGE) & is_worse
    if not is_odd.any():
        return None
    worst = int(np.argmax(np.where(is_odd, beyond, -np.inf)))
    how = "overconfident" if gap[worst] > 0 else "underconfident"
    name, size = class_label(int(judged[worst]), names), amount(int(count[judged[worst]]), "time")
    return f"Not alike for every class: {how} by {points(abs(gap[worst]))} where it says “{name}” ({size})."


def confusions(answers: Answers, examples: Examples, names: tuple[str, ...] | None) -> list[dict[str, Any]]:
    """The most frequent pairs of label and predicted class among the confident mistakes; then by their confidence."""
    confident = (examples.confidence >= CONFUSION_THRESHOLD) & ~examples.correct
    rows = confident.nonzero().squeeze(1).numpy()
    classes = int(answers.predicted.max()) + 1
    pairs = answers.labels[rows].astype(np.int64) * classes + answers.predicted[rows]  # one number is sorted faster
    found, group, count = np.unique(pairs, return_inverse=True, return_counts=True)
    total = np.bincount(group, examples.confidence[rows].double().numpy(), len(found))
    most = np.lexsort((-total / np.maximum(count, 1), -count))[:MOST_CONFUSIONS]
    return [
        {
            "label": class_label(int(found[one] // classes), names),
            "predicted": class_label(int(found[one] % classes), names),
            "count": int(count[one]),
            "confidence": total[one] / count[one],
        }
        for one in most
    ]
