"""Cross-entropy, over one pass or T: the baseline, and the ablation that has the passes but not the weighting."""

from __future__ import annotations

import torch
from torch import Tensor

from singleshot.common.checks import check_fraction, check_non_negative
from singleshot.losses.terms import ClassificationLoss, loss_terms, reduce_loss


def cross_entropy_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """L_GT = −(1/T) Σ_t log p_t(y), for logits (B, C) or (T, B, C) and labels (B,).

    >>> import torch
    >>> cross_entropy_loss(torch.zeros(5, 2, 4), torch.tensor([0, 3]))
    tensor(1.3863)
    """
    terms = loss_terms(logits, labels, weight, ignore_index, reduction)
    return reduce_loss(terms.ground_truth, terms, reduction)


class CrossEntropyLoss(ClassificationLoss):
    """Module over :func:`cross_entropy_loss`."""

    def __init__(self, *, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Logits (B, C) or (T, B, C), labels (B,)."""
        return cross_entropy_loss(logits, labels, **self.shared_options())


def label_smoothing_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    label_smoothing: float,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """Cross-entropy against (1 − ε)·onehot + ε·uniform, for logits (B, C) or (T, B, C) and labels (B,).

    >>> import torch
    >>> label_smoothing_loss(torch.tensor([[2.0, 0.0]]), torch.tensor([0]), label_smoothing=0.1)
    tensor(0.2269)
    """
    check_fraction("label_smoothing", label_smoothing)
    terms = loss_terms(logits, labels, weight, ignore_index, reduction)
    return reduce_loss((1 - label_smoothing) * terms.ground_truth + label_smoothing * terms.uniform, terms, reduction)


class LabelSmoothingLoss(ClassificationLoss):
    """Module over :func:`label_smoothing_loss`."""

    def __init__(
        self, *, label_smoothing: float, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        check_fraction("label_smoothing", label_smoothing)
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)
        self.label_smoothing = label_smoothing

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Logits (B, C) or (T, B, C), labels (B,)."""
        return label_smoothing_loss(logits, labels, label_smoothing=self.label_smoothing, **self.shared_options())


def focal_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    gamma: float,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """−(1/T) Σ_t (1 − p_t(y))^γ log p_t(y), for logits (B, C) or (T, B, C) and labels (B,).

    γ = 3 is the usual choice for calibration; 0 gives cross-entropy.

    >>> focal_loss(torch.tensor([[2.0, 0.0]]), torch.tensor([0]), gamma=3.0)
    tensor(0.0002)
    """
    check_non_negative("gamma", gamma)
    terms = loss_terms(logits, labels, weight, ignore_index, reduction)
    index = torch.where(terms.counted, labels.long(), 0)
    of_label = terms.log_probs.gather(-1, index.expand(len(terms.log_probs), -1).unsqueeze(-1)).squeeze(-1)  # (T, B)
    # 1 − p keeps its digits where p is nearly 1. It is clamped above 0, where a power below 1 has no finite slope.
    doubt = (-torch.expm1(of_label)).clamp(min=torch.finfo(of_label.dtype).tiny)
    losses = -(doubt**gamma * of_label).mean(0) * terms.example_weight
    return reduce_loss(losses, terms, reduction)


class FocalLoss(ClassificationLoss):
    """Module over :func:`focal_loss`."""

    def __init__(
        self, *, gamma: float, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        check_non_negative("gamma", gamma)
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)
        self.gamma = gamma

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Logits (B, C) or (T, B, C), labels (B,)."""
        return focal_loss(logits, labels, gamma=self.gamma, **self.shared_options())
