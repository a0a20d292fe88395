"""The focal loss: examples that are right already count less (Lin et al. 2017; for calibration Mukhoti et al. 2020)."""

from __future__ import annotations

import torch
from torch import Tensor

from singleshot.checks import check_non_negative
from singleshot.losses.terms import ClassificationLoss, loss_terms, reduce_loss


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
