"""Label smoothing: the same pull toward uniform for every example."""

from __future__ import annotations

from torch import Tensor

from singleshot.checks import check_fraction
from singleshot.losses.terms import ClassificationLoss, loss_terms, reduce_loss


def label_smoothing_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    epsilon: float,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """Cross-entropy against (1 − ε)·onehot + ε·uniform, for logits (B, C) or (T, B, C) and labels (B,).

    >>> import torch
    >>> label_smoothing_loss(torch.tensor([[2.0, 0.0]]), torch.tensor([0]), epsilon=0.1)
    tensor(0.2269)
    """
    check_fraction("epsilon", epsilon)
    terms = loss_terms(logits, labels, weight, ignore_index, reduction)
    return reduce_loss((1 - epsilon) * terms.ground_truth + epsilon * terms.uniform, terms, reduction)


class LabelSmoothingLoss(ClassificationLoss):
    """Module over :func:`label_smoothing_loss`."""

    def __init__(
        self, *, epsilon: float, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        check_fraction("epsilon", epsilon)
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)
        self.epsilon = epsilon

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Logits (B, C) or (T, B, C), labels (B,)."""
        return label_smoothing_loss(logits, labels, epsilon=self.epsilon, **self.shared_options())
