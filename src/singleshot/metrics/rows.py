"""What one row of predictions contributes to the metrics: its confidence, whether it is right, its NLL and Brier score.

Rows are worked on a cache-sized chunk at a time by the callers, in the dtype they come in (half precision as float32).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


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
