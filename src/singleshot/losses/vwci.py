"""The variance-weighted confidence-integrated loss: label smoothing with a strength per example."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from singleshot.common.checks import check_passes, check_scores
from singleshot.losses.terms import ClassificationLoss, LossOptions, loss_terms
from singleshot.uncertainty import DisagreementMeasure, apply_measure, resolve_measure

if TYPE_CHECKING:
    from typing_extensions import Unpack


def vwci_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    measure: str | DisagreementMeasure = "bhattacharyya",
    differentiate_alpha: bool = False,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """(1 − α_i) L_GT + α_i L_U, where α_i is the normalized variance of example i over T stochastic passes.

    Args:
        logits: (T, B, C), T stochastic passes over the same B examples.
        labels: (B,) class indices.
        measure: the disagreement measure that gives α, see :func:`singleshot.normalized_variance`.
        differentiate_alpha: whether gradients flow through α. By default they do not, and the loss is exactly the
            cross-entropy of every pass against (1 − α_i)·onehot + α_i·uniform.
        weight: one weight per class, as in ``torch.nn.functional.cross_entropy``.
        ignore_index: label of the examples to ignore.
        reduction: ``mean``, ``sum``, or ``none`` for one loss per example.

    >>> import torch
    >>> logits = torch.tensor([[[4.0, 0.0]], [[0.0, 4.0]]])  # two passes that disagree about one example
    >>> vwci_loss(logits, torch.tensor([0]), reduction="none")
    tensor([2.0181])
    """
    options: LossOptions = {"weight": weight, "ignore_index": ignore_index, "reduction": reduction}
    return vwci_loss_and_alpha(logits, labels, measure=measure, differentiate_alpha=differentiate_alpha, **options)[0]


def vwci_loss_and_alpha(
    logits: Tensor,
    labels: Tensor,
    *,
    measure: str | DisagreementMeasure,
    differentiate_alpha: bool = False,
    **options: Unpack[LossOptions],
) -> tuple[Tensor, Tensor]:
    """Return the loss of :func:`vwci_loss` and the detached α (B,) of every example, computed once."""
    function = resolve_measure(measure)
    check_scores(logits, ("(T, B, C)",))
    check_passes(logits)
    terms = loss_terms(logits, labels, **options)
    alpha = apply_measure(function, terms.log_probs if differentiate_alpha else terms.log_probs.detach())
    return terms.reduce((1 - alpha) * terms.ground_truth + alpha * terms.uniform), alpha.detach()


class VWCILoss(ClassificationLoss):
    """Module form of :func:`vwci_loss`, with the same options."""

    function = staticmethod(vwci_loss)

    def __init__(
        self,
        *,
        measure: str | DisagreementMeasure = "bhattacharyya",
        differentiate_alpha: bool = False,
        **options: Unpack[LossOptions],
    ) -> None:
        resolve_measure(measure)  # fail here, not at the first training step
        super().__init__(**options)
        self.measure = measure
        self.differentiate_alpha = differentiate_alpha
