"""The confidence-integrated loss CI(β): cross-entropy plus a fixed share of the divergence from uniform."""

from __future__ import annotations

import math

from torch import Tensor

from singleshot.common.checks import check_non_negative
from singleshot.losses.terms import ClassificationLoss, loss_terms, reduce_loss


def ci_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    beta: float,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """L_GT + β D_KL(U ‖ p), for logits (B, C) or (T, B, C) and labels (B,).

    Up to a constant it is (1 + β) times label smoothing with ε = β / (1 + β).

    >>> import torch
    >>> ci_loss(torch.zeros(1, 4), torch.tensor([0]), beta=1.0)  # uniform already: only the cross-entropy is left
    tensor(1.3863)
    """
    check_non_negative("beta", beta)
    terms = loss_terms(logits, labels, weight, ignore_index, reduction)
    divergence = terms.uniform - math.log(logits.shape[-1]) * terms.mean_class_weight
    return reduce_loss(terms.ground_truth + beta * divergence, terms, reduction)


class CILoss(ClassificationLoss):
    """Module over :func:`ci_loss`."""

    def __init__(
        self, *, beta: float, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        check_non_negative("beta", beta)
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)
        self.beta = beta

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Logits (B, C) or (T, B, C), labels (B,)."""
        return ci_loss(logits, labels, beta=self.beta, **self.shared_options())


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
