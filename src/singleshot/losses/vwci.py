"""The variance-weighted confidence-integrated loss: a label smoothing whose strength each example earns."""

from __future__ import annotations

from torch import Tensor

from singleshot.common.checks import check_passes, check_scores
from singleshot.losses.terms import ClassificationLoss, loss_terms, reduce_loss
from singleshot.uncertainty import DisagreementMeasure, apply_measure, resolve_measure


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
    """(1 − α_i) L_GT + α_i L_U, with α_i the normalized variance of example i over its T passes.

    Args:
        logits: (T, B, C), T stochastic passes over the same B examples.
        labels: (B,) class indices.
        measure: how disagreement becomes α, see :func:`singleshot.normalized_variance`.
        differentiate_alpha: by default α is a weight without gradient, and the loss is exactly the cross-entropy of
            every pass against (1 − α_i)·onehot + α_i·uniform.
        weight: one weight per class, as in ``torch.nn.functional.cross_entropy``.
        ignore_index: a label that does not count.
        reduction: ``mean``, ``sum`` or ``none``, the last giving one loss per example.

    >>> import torch
    >>> logits = torch.tensor([[[4.0, 0.0]], [[0.0, 4.0]]])  # two passes that disagree about one example
    >>> vwci_loss(logits, torch.tensor([0]), reduction="none")
    tensor([2.0181])
    """
    return vwci_loss_and_alpha(
        logits,
        labels,
        measure=measure,
        differentiate_alpha=differentiate_alpha,
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
    )[0]


def vwci_loss_and_alpha(
    logits: Tensor,
    labels: Tensor,
    *,
    measure: str | DisagreementMeasure = "bhattacharyya",
    differentiate_alpha: bool = False,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> tuple[Tensor, Tensor]:
    """Return the loss of :func:`vwci_loss` and the detached α (B,) of every example, computed once."""
    function = resolve_measure(measure)
    check_scores(logits, ("(T, B, C)",))
    check_passes(logits)
    terms = loss_terms(logits, labels, weight, ignore_index, reduction)
    alpha = apply_measure(function, terms.log_probs if differentiate_alpha else terms.log_probs.detach())
    losses = (1 - alpha) * terms.ground_truth + alpha * terms.uniform
    return reduce_loss(losses, terms, reduction), alpha.detach()


class VWCILoss(ClassificationLoss):
    """Module over :func:`vwci_loss`."""

    def __init__(
        self,
        *,
        measure: str | DisagreementMeasure = "bhattacharyya",
        differentiate_alpha: bool = False,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
    ) -> None:
        resolve_measure(measure)  # an unknown name is an error now, not at the first step
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)
        self.measure = measure
        self.differentiate_alpha = differentiate_alpha

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Logits (T, B, C), labels (B,)."""
        return vwci_loss(
            logits,
            labels,
            measure=self.measure,
            differentiate_alpha=self.differentiate_alpha,
            **self.shared_options(),
        )
