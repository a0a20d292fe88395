"""Cross-entropy, over one pass or T: the baseline, and the ablation that has the passes but not the weighting."""

from __future__ import annotations

from torch import Tensor

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
