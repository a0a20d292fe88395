"""What one row of predictions contributes to the metrics: its confidence, whether it is right, its NLL and Brier score.

Rows are worked on a cache-sized chunk at a time by the callers, in the dtype they come in (half precision as float32).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from singleshot.common.checks import (
    FINITE,
    PROBABILITIES,
    as_tensor,
    check_labels,
    check_rows,
    check_scores,
    finite_rows,
    probability_rows,
)
from singleshot.uncertainty import at_least_float32


class Rows(NamedTuple):
    """One value per example, each of shape (N,)."""

    confidence: Tensor  # probability of the predicted class
    correct: Tensor  # whether the predicted class, the first of the largest, is the label
    nll: Tensor  # −log p(y)
    brier: Tensor  # Σ_c (p(c) − [c = y])²


def rows_from_logits(logits: Tensor, labels: Tensor) -> Rows:
    """Row values of finite logits (N, C).

    Relative to the largest logit, with the label's term set apart, no step subtracts two nearly equal numbers: NLL and
    Brier score keep their digits in float32 even where the label has all the probability.
    """
    top = logits.amax(1)
    label_logit = logits.gather(1, labels.unsqueeze(1)).squeeze(1)
    label_odds = (label_logit - top).exp_()
    odds = (logits - top.unsqueeze(1)).exp_()
    odds[torch.arange(len(odds), device=odds.device), labels] = 0
    best_other = odds.amax(1)
    other_odds = odds.sum(1)
    total = label_odds + other_odds

    confidence = total.reciprocal()
    log_total = (other_odds + (label_odds - 1)).log1p()
    label_on_top = label_odds == 1
    return Rows(
        confidence=confidence,
        correct=_label_is_first_largest(
            logits, labels, label_on_top & (best_other < 1), label_on_top & (best_other == 1)
        ),
        nll=log_total + (top - label_logit),
        brier=odds.square_().sum(1) * confidence.square() + (other_odds * confidence).square(),
    )


def rows_from_probs(probs: Tensor, labels: Tensor) -> Rows:
    """Row values of probabilities (N, C) that sum to 1; a label of probability 0 has an infinite NLL."""
    column = labels.unsqueeze(1)
    label_prob = probs.gather(1, column).squeeze(1).clamp(max=1)  # 1.0000001 is rounding
    others = probs.scatter(1, column, 0)
    best_other = others.amax(1)
    return Rows(
        confidence=torch.maximum(label_prob, best_other.clamp(max=1)),
        correct=_label_is_first_largest(probs, labels, label_prob > best_other, label_prob == best_other),
        nll=-label_prob.log(),
        brier=others.square_().sum(1) + (1 - label_prob).square(),
    )


def _label_is_first_largest(scores: Tensor, labels: Tensor, ahead: Tensor, tied: Tensor) -> Tensor:
    """Whether the first largest score is the label's: an index search only for the rare rows that are tied.

    Two vectorised maxima are several times faster than one that carries its index along.
    """
    rows = tied.nonzero().squeeze(1)
    if len(rows):
        ahead[rows] = scores[rows].argmax(1) == labels[rows]
    return ahead


CHUNK_ELEMENTS = 2**19
"""Scores worked on at a time: 2 MB of float32 stay in a core's cache, and memory does not grow with the data."""


class Scores(NamedTuple):
    """Scores (N, C) of N examples, by the name they were given under, and their labels (N,) on the same device."""

    name: str  # "logits" or "probs"
    values: Tensor
    labels: Tensor

    @classmethod
    def given(
        cls,
        logits: Tensor | np.ndarray | None,
        probs: Tensor | np.ndarray | None,
        labels: Tensor | np.ndarray,
    ) -> Scores:
        """What was given as one of the two, checked as far as its shape and labels go."""
        if (logits is None) == (probs is None):
            raise ValueError("give either logits= or probs=, and labels=")
        name, given = ("logits", logits) if logits is not None else ("probs", probs)
        values = as_tensor(given, name)
        check_scores(values, ("(N, C)",), name=name)
        return cls(name, values, check_labels(as_tensor(labels, "labels"), *values.shape).to(values.device))

    def pieces(self) -> Iterator[Scores]:
        """The batch in pieces that stay in the cache, the rows of each checked before it is given out."""
        rows_are_fine, demand = (finite_rows, FINITE) if self.name == "logits" else (probability_rows, PROBABILITIES)
        rows = max(1, CHUNK_ELEMENTS // self.values.shape[1])
        for first in range(0, len(self.values), rows):
            part = self.values[first : first + rows]
            check_rows(part, rows_are_fine, demand, whole=self.values)
            yield Scores(self.name, part, self.labels[first : first + rows])

    def rows(self) -> Rows:
        """What each example contributes to the metrics, on the CPU.

        There sums are the same on every run, and not every accelerator has float64.
        """
        read = rows_from_logits if self.name == "logits" else rows_from_probs
        return Rows(*(values.cpu() for values in read(at_least_float32(self.values), self.labels)))

    def probs(self) -> Tensor:
        """The probability of every class, as given or from the logits."""
        return at_least_float32(self.values).softmax(1) if self.name == "logits" else self.values

    def as_given(self, confidence: Tensor) -> Tensor:
        """The confidence in the dtype of given probabilities: half-precision bins have rounded edges."""
        return confidence.to(self.values.dtype) if self.name == "probs" else confidence
