"""Focal losses: cross-entropy with a weight that falls with the probability of the label."""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsFloat

import torch
from torch import Tensor, nn

from singleshot.losses.terms import ClassificationLoss, LossOptions, check_strength, loss_terms

if TYPE_CHECKING:
    from typing_extensions import Unpack


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

    γ = 3 is the usual choice for calibration; γ = 0 gives cross-entropy. For soft labels every class has its own
    weight: −Σ_c y_c (1 − p(c))^γ log p(c).

    Lin, Goyal, Girshick, He, Dollár: Focal Loss for Dense Object Detection. ICCV 2017.

    >>> focal_loss(torch.tensor([[2.0, 0.0]]), torch.tensor([0]), gamma=3.0)
    tensor(0.0002)
    """
    gamma = check_strength("focal", "gamma", gamma, "[0, inf)")
    terms = loss_terms(logits, labels, weight, ignore_index, reduction)
    return terms.reduce(-terms.over_labels(miss(terms.label_log_probs) ** gamma * terms.label_log_probs))


def miss(log_probs: Tensor) -> Tensor:
    """1 − p, accurate for p near 1, and above 0, where a power below 1 has an infinite gradient."""
    return (-torch.expm1(log_probs)).clamp(min=torch.finfo(log_probs.dtype).tiny)


class FocalLoss(ClassificationLoss):
    """Module form of :func:`focal_loss`, with the same options.

    >>> FocalLoss(gamma=3.0)(torch.tensor([[2.0, 0.0]]), torch.tensor([0]))
    tensor(0.0002)
    """

    function = staticmethod(focal_loss)

    def __init__(self, *, gamma: SupportsFloat, **options: Unpack[LossOptions]) -> None:
        check_strength("focal", "gamma", gamma, "[0, inf)")
        super().__init__(**options)
        self.gamma = gamma


def flsd_loss(
    logits: Tensor, labels: Tensor, *, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """Focal loss with γ = 5 where p(y) < 0.2 and γ = 3 elsewhere (FLSD-53).

    Mukhoti, Kulharia, Sanyal, Golodetz, Torr, Dokania: Calibrating Deep Neural Networks using Focal Loss. NeurIPS 2020.

    >>> flsd_loss(torch.tensor([[2.0, 0.0]]), torch.tensor([1]))
    tensor(1.1275)
    """
    terms = loss_terms(logits, labels, weight, ignore_index, reduction)
    gamma = torch.where(terms.label_log_probs.detach().exp() < 0.2, 5.0, 3.0)
    return terms.reduce(-terms.over_labels(miss(terms.label_log_probs) ** gamma * terms.label_log_probs))


class FLSDLoss(ClassificationLoss):
    """Module form of :func:`flsd_loss`, with the same options.

    >>> FLSDLoss()(torch.tensor([[2.0, 0.0]]), torch.tensor([1]))
    tensor(1.1275)
    """

    function = staticmethod(flsd_loss)


def dual_focal_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    gamma: SupportsFloat = 3.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """−(1 − p(y) + p(j))^γ log p(y), where j is the class that ranks next below the label; p(j) is 0 if there is none.

    Compared with focal loss, an example whose two best classes are close keeps its weight. For soft labels every class
    has its own weight, as in `focal_loss`.

    Tao, Dong, Xu: Dual Focal Loss for Calibration. ICML 2023.

    >>> dual_focal_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([0]), gamma=2.0)
    tensor(0.0906)
    """
    gamma = check_strength("dual_focal", "gamma", gamma, "[0, inf)")
    terms = loss_terms(logits, labels, weight, ignore_index, reduction)
    log_probs, label = terms.log_probs, terms.label_log_probs
    if terms.labels.ndim == 1:
        next_below = log_probs.masked_fill(log_probs >= label, -torch.inf).amax(-1, keepdim=True)
    else:
        ordered = log_probs.sort(-1).values
        rank = torch.searchsorted(ordered.detach(), label.detach().contiguous())  # how many classes rank below
        next_below = nn.functional.pad(ordered, (1, 0), value=-torch.inf).gather(-1, rank)
    return terms.reduce(-terms.over_labels((miss(label) + next_below.exp()) ** gamma * label))


class DualFocalLoss(ClassificationLoss):
    """Module form of :func:`dual_focal_loss`, with the same options.

    >>> DualFocalLoss(gamma=2.0)(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
    tensor(0.0906)
    """

    function = staticmethod(dual_focal_loss)

    def __init__(self, *, gamma: SupportsFloat = 3.0, **options: Unpack[LossOptions]) -> None:
        check_strength("dual_focal", "gamma", gamma, "[0, inf)")
        super().__init__(**options)
        self.gamma = gamma
