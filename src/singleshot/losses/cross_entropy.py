"""Losses without variance weighting: cross-entropy, label smoothing, CI, entropy CI and focal loss."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, SupportsFloat

import torch
from torch import Tensor

from singleshot.losses.terms import ClassificationLoss, LossOptions, check_strength, loss_terms

if TYPE_CHECKING:
    from typing_extensions import Unpack


def cross_entropy_loss(
    logits: Tensor, labels: Tensor, *, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """L_GT = −(1/T) Σ_t log p_t(y), for logits (B, C) or (T, B, C) and labels (B,).

    >>> cross_entropy_loss(torch.zeros(5, 2, 4), torch.tensor([0, 3]))
    tensor(1.3863)
    """
    terms = loss_terms(logits, labels, weight, ignore_index, reduction)
    return terms.reduce(terms.ground_truth)


class CrossEntropyLoss(ClassificationLoss):
    """Module form of :func:`cross_entropy_loss`, with the same options."""

    function = staticmethod(cross_entropy_loss)


def label_smoothing_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    label_smoothing: SupportsFloat,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """Cross-entropy against (1 − ε)·onehot + ε·uniform, for logits (B, C) or (T, B, C) and labels (B,).

    >>> label_smoothing_loss(torch.tensor([[2.0, 0.0]]), torch.tensor([0]), label_smoothing=0.1)
    tensor(0.2269)
    """
    label_smoothing = check_strength("label_smoothing", "label_smoothing", label_smoothing, "[0, 1]")
    terms = loss_terms(logits, labels, weight, ignore_index, reduction)
    return terms.reduce((1 - label_smoothing) * terms.ground_truth + label_smoothing * terms.uniform)


class LabelSmoothingLoss(ClassificationLoss):
    """Module form of :func:`label_smoothing_loss`, with the same options."""

    function = staticmethod(label_smoothing_loss)

    def __init__(self, *, label_smoothing: SupportsFloat, **options: Unpack[LossOptions]) -> None:
        check_strength("label_smoothing", "label_smoothing", label_smoothing, "[0, 1]")
        super().__init__(**options)
        self.label_smoothing = label_smoothing


def ci_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    beta: SupportsFloat,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """L_GT + β D_KL(U ‖ p), for logits (B, C) or (T, B, C) and labels (B,).

    Up to a constant this is (1 + β) times label smoothing with ε = β / (1 + β).

    >>> ci_loss(torch.zeros(1, 4), torch.tensor([0]), beta=1.0)  # uniform: only the cross-entropy remains
    tensor(1.3863)
    """
    beta = check_strength("ci", "beta", beta, "[0, inf)")
    terms = loss_terms(logits, labels, weight, ignore_index, reduction)
    divergence = terms.uniform - math.log(logits.shape[-1]) * terms.mean_class_weight
    return terms.reduce(terms.ground_truth + beta * divergence)


class CILoss(ClassificationLoss):
    """Module form of :func:`ci_loss`, with the same options."""

    function = staticmethod(ci_loss)

    def __init__(self, *, beta: SupportsFloat, **options: Unpack[LossOptions]) -> None:
        check_strength("ci", "beta", beta, "[0, inf)")
        super().__init__(**options)
        self.beta = beta


def entropy_ci_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    gamma: SupportsFloat,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """L_GT − γ H(p), for logits (B, C) or (T, B, C) and labels (B,); a class weight multiplies both terms.

    >>> entropy_ci_loss(torch.zeros(1, 4), torch.tensor([0]), gamma=1.0)
    tensor(0.)
    """
    gamma = check_strength("entropy_ci", "gamma", gamma, "[0, inf)")
    terms = loss_terms(logits, labels, weight, ignore_index, reduction)
    entropy = -(terms.log_probs.exp() * terms.log_probs).sum(-1).mean(0)
    return terms.reduce(terms.ground_truth - gamma * entropy * terms.example_weight)


class EntropyCILoss(ClassificationLoss):
    """Module form of :func:`entropy_ci_loss`, with the same options."""

    function = staticmethod(entropy_ci_loss)

    def __init__(self, *, gamma: SupportsFloat, **options: Unpack[LossOptions]) -> None:
        check_strength("entropy_ci", "gamma", gamma, "[0, inf)")
        super().__init__(**options)
        self.gamma = gamma


def focal_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    gamma: SupportsFloat,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """−(1/T) Σ_t (1 − p_t(y))^γ log p_t(y), for logits (B, C) or (T, B, C) and labels (B,).

    γ = 3 is the usual choice for calibration; γ = 0 gives cross-entropy.

    >>> focal_loss(torch.tensor([[2.0, 0.0]]), torch.tensor([0]), gamma=3.0)
    tensor(0.0002)
    """
    gamma = check_strength("focal", "gamma", gamma, "[0, inf)")
    terms = loss_terms(logits, labels, weight, ignore_index, reduction)
    index = terms.index.expand(len(terms.log_probs), -1).unsqueeze(-1)
    log_prob = terms.log_probs.gather(-1, index).squeeze(-1)  # of the label, (T, B)
    # expm1 keeps 1 − p accurate for p near 1. The clamp avoids 0, where a power below 1 has an infinite gradient.
    miss = (-torch.expm1(log_prob)).clamp(min=torch.finfo(log_prob.dtype).tiny)
    return terms.reduce(-(miss**gamma * log_prob).mean(0) * terms.example_weight)


class FocalLoss(ClassificationLoss):
    """Module form of :func:`focal_loss`, with the same options."""

    function = staticmethod(focal_loss)

    def __init__(self, *, gamma: SupportsFloat, **options: Unpack[LossOptions]) -> None:
        check_strength("focal", "gamma", gamma, "[0, inf)")
        super().__init__(**options)
        self.gamma = gamma
