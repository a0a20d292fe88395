"""Whether the labels fit the predictions: swapped, counted from 1, or of another order of the classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from singleshot.common.text import shown
from singleshot.evaluation.formatting import share_text
from singleshot.metrics.examples import ScoredBatch

MAX_CLASSES = 1024  # of the matrix of pairs, 8 MB
MIN_RIGHT, MIN_MORE = 0.5, 0.3
"""Another order of the classes counts if it makes at least this share right, and so much more than the given order and
than chance."""
LabelNames = Callable[[], Sequence[str] | None]
FEWER, DEVIATIONS = 0.8, 5.0
"""An accuracy of less than this share of that of unrelated labels, and so far below it, is a reason to doubt."""


class LabelFault(NamedTuple):
    """What is wrong with the labels, and what to do; not certain if no order of the classes explains the errors."""

    finding: str
    advice: str
    is_certain: bool = True

    @property
    def headline(self) -> str:
        """The finding after the words that the labels must be checked."""
        return f"Check the labels: {self.finding.replace('the labels', 'they', 1)}."


class LabelCheck:
    """Counts the pairs of predicted class and label, of up to `MAX_CLASSES` classes."""

    def __init__(self) -> None:
        self.count = 0  # examples
        self._pairs: torch.Tensor | None = torch.zeros(0, 0, dtype=torch.int64)

    def add(self, batch: ScoredBatch) -> None:
        """Add a batch."""
        self.count += len(batch)
        for part in batch.chunks() if len(batch) else ():
            self._add(part)

    def _add(self, batch: ScoredBatch) -> None:
        if self._pairs is None:
            return
        predicted = batch.labels.clone()
        wrong = (~batch.correct).nonzero().squeeze(1)  # an argmax of all scores would take longer
        predicted[wrong] = batch.predicted(wrong)
        classes = max(batch.scores.shape[1], int(predicted.amax()) + 1, int(batch.labels.amax()) + 1)
        if classes > MAX_CLASSES:
            self._pairs = None
            return
        if classes > len(self._pairs):
            larger = torch.zeros(classes, classes, dtype=torch.int64)
            larger[: len(self._pairs), : len(self._pairs)] = self._pairs
            self._pairs = larger
        pair = predicted * len(self._pairs) + batch.labels
        self._pairs.view(-1).index_add_(0, pair, torch.ones_like(pair))

    def fault(self, positive: str | None, label_names: LabelNames) -> LabelFault | None:
        """Return what is wrong with the labels, if anything.

        ``positive`` is the class of a single score. ``label_names`` returns the class names if the labels are names.
        """
        if self._pairs is None or not self._pairs.any():
            return None
        pairs = self._pairs.double().numpy()
        total = pairs.sum()
        right = float(np.trace(pairs) / total)
        by_chance = float(pairs.sum(0) @ pairs.sum(1) / total**2)
        deviation = math.sqrt(by_chance * (1 - by_chance) / total)
        is_below = right < min(FEWER * by_chance, by_chance - DEVIATIONS * deviation)
        if right >= 1 - MIN_MORE or not (is_below or right < MIN_RIGHT):
            return None
        order = _best_order(pairs)
        reordered = float(pairs[np.arange(len(pairs)), order].sum() / total)
        least = max(right, float(pairs.sum(1) @ pairs.sum(0)[order] / total**2)) + MIN_MORE
        is_reordered = reordered >= max(MIN_RIGHT, least) and total >= 10 * len(pairs)
        if not (is_below or is_reordered):
            return None
        return _described(
            order, right, reordered if is_reordered else None, by_chance, positive=positive, names=label_names()
        )


def _best_order(pairs: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the label of each predicted class, one to one, that makes most predictions right."""
    from scipy.optimize import linear_sum_assignment

    return np.asarray(linear_sum_assignment(pairs, maximize=True)[1])


def _described(
    order: NDArray[np.int64],
    right: float,
    reordered: float | None,
    by_chance: float,
    *,
    positive: str | None,
    names: Sequence[str] | None,
) -> LabelFault:
    right = round(right, 3)  # as shown, so that the shares of two classes add up
    only = f"only {share_text(right)} of the predictions are right"
    step = order - np.arange(len(order))
    advice = (
        f"Check that the labels are in the order of the rows{', and count classes from 0' if names is None else ''}."
    )
    if len(order) == 2 and order[0] == 1:
        advice = "Check the order of the two classes."
        if positive is not None:
            advice = f"If the scores are not those of {shown(positive)}, name the positive class: --positive LABEL."
    if reordered is None:
        finding = f"the labels may not fit the predictions: {only}; by chance, {share_text(by_chance)} would be"
        return LabelFault(finding, advice, is_certain=False)
    if len(order) == 2:
        exchanged = f"with the classes exchanged, {share_text(1 - right)} would be"
        return LabelFault(f"the labels look swapped: {only}; {exchanged}", advice)
    would = f"{share_text(reordered)} would be"
    finding = f"the labels look like those of another order of the classes: {only}; in that order, {would}"
    for shift, words, what in ((1, "counted from 1", "subtract 1"), (-1, "one too small", "add 1")):
        if (step == shift).mean() >= 1 - 2 / len(order):
            if names is None:
                finding = f"the labels look {words}: {only}; with class indices that start at 0, {would}"
                return LabelFault(finding, f"Class indices start at 0: {what}.")
            finding = f"the labels look shifted by one class: {only}; shifted back, {would}"
    moved = int(np.flatnonzero(step)[0])
    predicted, label = (index if names is None else shown(names[index]) for index in (moved, int(order[moved])))
    advice = f"Check the order of the classes: where class {predicted} is predicted, most labels are {label}."
    return LabelFault(finding, advice)
