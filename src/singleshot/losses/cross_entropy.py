"""Losses of each example on its own: cross-entropy, its smoothed and regularised forms, and the Brier score."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, SupportsFloat

import torch
from torch import Tensor

from singleshot.common.checks import check_range
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
    """Module form of :func:`cross_entropy_loss`, with the same options.

    >>> CrossEntropyLoss()(torch.zeros(5, 2, 4), torch.tensor([0, 3]))
    tensor(1.3863)
    """

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
    """Module form of :func:`label_smoothing_loss`, with the same options.

    >>> LabelSmoothingLoss(label_smoothing=0.1)(torch.tensor([[2.0, 0.0]]), torch.tensor([0]))
    tensor(0.2269)
    """

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
    divergence = terms.uniform - math.log(terms.log_probs.shape[-1]) * terms.class_weights.mean()
    return terms.reduce(terms.ground_truth + beta * divergence)


class CILoss(ClassificationLoss):
    """Module form of :func:`ci_loss`, with the same options.

    >>> CILoss(beta=1.0)(torch.zeros(1, 4), torch.tensor([0]))
    tensor(1.3863)
    """

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
    """Module form of :func:`entropy_ci_loss`, with the same options.

    >>> EntropyCILoss(gamma=1.0)(torch.zeros(1, 4), torch.tensor([0]))
    tensor(0.)
    """

    function = staticmethod(entropy_ci_loss)

    def __init__(self, *, gamma: SupportsFloat, **options: Unpack[LossOptions]) -> None:
        check_strength("entropy_ci", "gamma", gamma, "[0, inf)")
        super().__init__(**options)
        self.gamma = gamma


def margin_smoothing_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    penalty: SupportsFloat = 0.1,
    margin: SupportsFloat = 10.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """L_GT + λ (1/C) Σ_c max(0, max_j z_j − z_c − m): logits may differ by the margin m at no cost.

    Label smoothing pulls all logits together; this pulls only those that are further apart than the margin. λ is
    ``penalty``. The paper sums over the classes; the mean makes λ independent of their number.

    Liu, Ben Ayed, Galdran, Dolz: The Devil is in the Margin: Margin-based Label Smoothing for Network Calibration.
    CVPR 2022.

    >>> margin_smoothing_loss(torch.tensor([[20.0, 0.0]]), torch.tensor([0]), penalty=0.1, margin=10.0)
    tensor(0.5000)
    """
    penalty = check_strength("margin_smoothing", "penalty", penalty, "[0, inf)")
    margin = check_range("margin", margin, "[0, inf)")
    terms = loss_terms(logits, labels, weight, ignore_index, reduction)
    distance = terms.log_probs.amax(-1, keepdim=True) - terms.log_probs  # the same as that of the logits
    excess = torch.relu(distance - margin).mean(-1).mean(0)
    return terms.reduce(terms.ground_truth + penalty * excess * terms.example_weight)


class MarginSmoothingLoss(ClassificationLoss):
    """Module form of :func:`margin_smoothing_loss`, with the same options.

    >>> MarginSmoothingLoss(penalty=0.1, margin=10.0)(torch.tensor([[20.0, 0.0]]), torch.tensor([0]))
    tensor(0.5000)
    """

    function = staticmethod(margin_smoothing_loss)

    def __init__(
        self, *, penalty: SupportsFloat = 0.1, margin: SupportsFloat = 10.0, **options: Unpack[LossOptions]
    ) -> None:
        check_strength("margin_smoothing", "penalty", penalty, "[0, inf)")
        check_range("margin", margin, "[0, inf)")
        super().__init__(**options)
        self.penalty = penalty
        self.margin = margin


def brier_loss(
    logits: Tensor, labels: Tensor, *, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """(1/T) Σ_t Σ_c (p_t(c) − [c = y])², the Brier score: a proper score whose gradient vanishes at certainty.

    Brier: Verification of Forecasts Expressed in Terms of Probability. Monthly Weather Review, 1950.

    >>> brier_loss(torch.zeros(1, 4), torch.tensor([0]))
    tensor(0.7500)
    """
    terms = loss_terms(logits, labels, weight, ignore_index, reduction)
    score = (terms.log_probs.exp() - terms.target).square().sum(-1).mean(0)
    return terms.reduce(score * terms.example_weight)


class BrierLoss(ClassificationLoss):
    """Module form of :func:`brier_loss`, with the same options.

    >>> BrierLoss()(torch.zeros(1, 4), torch.tensor([0]))
    tensor(0.7500)
    """

    function = staticmethod(brier_loss)
