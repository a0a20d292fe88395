"""Losses that add a calibration error of the whole batch to the cross-entropy: MMCE, MDCA, DCA and soft-binned ECE.

Their value depends on which examples are in a batch. In a group of processes, `singleshot.gather_batch` makes it that
of the global batch. Class weights apply to the cross-entropy alone. With several stochastic passes, the calibration
error is the mean of that of each pass. The accuracy of a soft label is the share that it gives the predicted class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, SupportsFloat

import torch
from torch import Tensor

from singleshot.losses.terms import ClassificationLoss, LossOptions, Terms, check_strength, loss_terms
from singleshot.uncertainty import flat_root

if TYPE_CHECKING:
    from typing_extensions import Unpack

KERNEL_WIDTH = 0.4
SOFT_BINS, SOFT_BIN_TEMPERATURE = 15, 0.01


def mmce_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    penalty: SupportsFloat = 1.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """L_GT + λ MMCE, where MMCE² = (1/B²) Σ_ij (a_i − r_i)(a_j − r_j) exp(−|r_i − r_j| / 0.4).

    This is the maximum mean calibration error. r is the confidence, a is 1 for a correct prediction and 0 for a wrong
    one, and λ is ``penalty``. Sorting by the confidence makes the double sum a cumulative sum: B log B operations, and
    no B × B matrix.

    Kumar, Sarawagi, Jain: Trainable Calibration Measures for Neural Networks from Kernel Mean Embeddings. ICML 2018.

    >>> mmce_loss(torch.zeros(1, 2), torch.tensor([0]), penalty=1.0)  # log 2, and |1 − 0.5|
    tensor(1.1931)
    """
    return _penalized("mmce", _mmce, penalty, loss_terms(logits, labels, weight, ignore_index, reduction))


def mdca_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    penalty: SupportsFloat = 1.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """L_GT + λ (1/C) Σ_c |(1/B) Σ_i p_i(c) − (1/B) Σ_i [y_i = c]|: the mean probability of a class is its frequency.

    λ is ``penalty``.

    Hebbalaguppe, Prakash, Madan, Arora: A Stitch in Time Saves Nine: A Train-Time Regularizing Loss for Improved Neural
    Network Calibration. CVPR 2022.

    >>> mdca_loss(torch.zeros(1, 2), torch.tensor([0]), penalty=1.0)  # log 2, and (0.5 + 0.5) / 2
    tensor(1.1931)
    """
    return _penalized("mdca", _mdca, penalty, loss_terms(logits, labels, weight, ignore_index, reduction))


def dca_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    penalty: SupportsFloat = 1.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """L_GT + λ |(1/B) Σ_i a_i − (1/B) Σ_i r_i|: the mean confidence is the accuracy; λ is ``penalty``.

    Liang, Zhang, Wang, Jacobs: Improved Trainable Calibration Method for Neural Networks on Medical Imaging
    Classification. BMVC 2020.

    >>> dca_loss(torch.zeros(2, 2), torch.tensor([0, 1]), penalty=1.0)  # both are predicted as class 0
    tensor(0.6931)
    """
    return _penalized("dca", _dca, penalty, loss_terms(logits, labels, weight, ignore_index, reduction))


def soft_ece_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    penalty: SupportsFloat = 1.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """L_GT + λ SB-ECE, an ECE whose 15 bins share every example.

    Example i belongs to the bin with centre ξ_j by u_ij = softmax_j(−(r_i − ξ_j)² / 0.01). With S_j = Σ_i u_ij,
    SB-ECE² = Σ_j (S_j / B) (Σ_i u_ij (a_i − r_i) / S_j)². λ is ``penalty``.

    Karandikar, Cain, Tran, Lakshminarayanan, Shlens, Mozer, Roelofs: Soft Calibration Objectives for Neural Networks.
    NeurIPS 2021.

    >>> soft_ece_loss(torch.zeros(1, 2), torch.tensor([0]), penalty=1.0)
    tensor(1.1931)
    """
    return _penalized("soft_ece", _soft_ece, penalty, loss_terms(logits, labels, weight, ignore_index, reduction))


def _penalized(name: str, error: Callable[[Terms], Tensor], penalty: SupportsFloat, terms: Terms) -> Tensor:
    penalty = check_strength(name, "penalty", penalty, "[0, inf)")
    # A mean divides by the summed weights of class indices, but by the number of soft labels: λ is the same for both.
    weight = 1 if terms.labels.ndim == 2 else terms.example_weight
    return terms.reduce(terms.ground_truth + penalty * error(terms) * weight)


def _mmce(terms: Terms) -> Tensor:
    confidence, gap = _confidence_and_gap(terms)
    confidence, order = confidence.sort(-1)
    gap = gap.gather(-1, order)
    growth = (confidence / KERNEL_WIDTH).exp()  # at most exp(2.5)
    below = (gap * growth).cumsum(-1) - gap * growth  # sum over the examples of lower confidence
    square = (gap.square() + 2 * gap / growth * below).sum(-1)
    return flat_root(square).mean()


def _mdca(terms: Terms) -> Tensor:
    share = _share(terms)
    if terms.labels.ndim == 2:
        frequency = (terms.target * share.unsqueeze(-1)).sum(0)
    else:
        frequency = torch.zeros_like(terms.class_weights).index_add(0, terms.labels, share)
    with torch.autocast(share.device.type, enabled=False):  # autocast would multiply in half precision
        return (share @ terms.log_probs.exp() - frequency).abs().mean()


def _dca(terms: Terms) -> Tensor:
    return _confidence_and_gap(terms)[1].sum(-1).abs().mean()


def _soft_ece(terms: Terms) -> Tensor:
    confidence, gap = _confidence_and_gap(terms)
    centres = (torch.arange(SOFT_BINS, device=gap.device, dtype=gap.dtype) + 0.5) / SOFT_BINS
    membership = (-(confidence.unsqueeze(-1) - centres).square() / SOFT_BIN_TEMPERATURE).softmax(-1)
    size = (membership * _share(terms).unsqueeze(-1)).sum(1).clamp(min=1e-12)  # the gap of an empty bin is smaller yet
    return flat_root(((membership * gap.unsqueeze(-1)).sum(1).square() / size).sum(-1)).mean()


def _confidence_and_gap(terms: Terms) -> tuple[Tensor, Tensor]:
    """Return the confidence r and (a − r) / B of every example and pass, (T, N); the gap of ignored examples is 0."""
    top, predicted = terms.log_probs.max(-1, keepdim=True)
    confidence = top.squeeze(-1).exp()
    correct = terms.target.expand_as(terms.log_probs).gather(-1, predicted).squeeze(-1)
    return confidence, (correct - confidence) * _share(terms)


def _share(terms: Terms) -> Tensor:
    """1 / B, 0 for ignored examples."""
    return terms.counted.to(terms.log_probs) / terms.counted.sum()


class _PenalizedLoss(ClassificationLoss):
    name: ClassVar[str]

    def __init__(self, *, penalty: SupportsFloat = 1.0, **options: Unpack[LossOptions]) -> None:
        check_strength(type(self).name, "penalty", penalty, "[0, inf)")
        super().__init__(**options)
        self.penalty = penalty


class MMCELoss(_PenalizedLoss):
    """Module form of :func:`mmce_loss`, with the same options.

    >>> MMCELoss(penalty=1.0)(torch.zeros(1, 2), torch.tensor([0]))
    tensor(1.1931)
    """

    name, function = "mmce", staticmethod(mmce_loss)


class MDCALoss(_PenalizedLoss):
    """Module form of :func:`mdca_loss`, with the same options.

    >>> MDCALoss(penalty=1.0)(torch.zeros(1, 2), torch.tensor([0]))
    tensor(1.1931)
    """

    name, function = "mdca", staticmethod(mdca_loss)


class DCALoss(_PenalizedLoss):
    """Module form of :func:`dca_loss`, with the same options.

    >>> DCALoss(penalty=1.0)(torch.zeros(2, 2), torch.tensor([0, 1]))
    tensor(0.6931)
    """

    name, function = "dca", staticmethod(dca_loss)


class SoftECELoss(_PenalizedLoss):
    """Module form of :func:`soft_ece_loss`, with the same options.

    >>> SoftECELoss(penalty=1.0)(torch.zeros(1, 2), torch.tensor([0]))
    tensor(1.1931)
    """

    name, function = "soft_ece", staticmethod(soft_ece_loss)
