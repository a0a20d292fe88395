"""The entropy form CI′(γ) of the confidence-integrated loss, also known as the confidence penalty."""

from __future__ import annotations

from torch import Tensor

from singleshot.checks import check_non_negative
from singleshot.losses.terms import ClassificationLoss, loss_terms, reduce_loss


def entropy_ci_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    gamma: float,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """L_GT − γ H(p), for logits (B, C) or (T, B, C) and labels (B,); class weights multiply the whole example.

    >>> import torch
    >>> entropy_ci_loss(torch.zeros(1, 4), torch.tensor([0]), gamma=1.0)
    tensor(0.)
    """
    check_non_negative("gamma", gamma)
    terms = loss_terms(logits, labels, weight, ignore_index, reduction)
    entropy = -(terms.log_probs.exp() * terms.log_probs).sum(-1).mean(0)
    return reduce_loss(terms.ground_truth - gamma * entropy * terms.example_weight, terms, reduction)


class EntropyCILoss(ClassificationLoss):
    """Module over :func:`entropy_ci_loss`."""

    def __init__(
        self, *, gamma: float, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        check_non_negative("gamma", gamma)
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)
        self.gamma = gamma

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Logits (B, C) or (T, B, C), labels (B,)."""
        return entropy_ci_loss(logits, labels, gamma=self.gamma, **self.shared_options())
