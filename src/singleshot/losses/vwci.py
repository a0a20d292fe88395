"""The variance-weighted confidence-integrated loss: a label smoothing whose strength each example earns."""

from __future__ import annotations

from torch import Tensor

from singleshot.common.checks import check_passes, check_scores
from singleshot.losses.terms import ClassificationLoss, loss_terms, reduce_loss
from singleshot.uncertainty import VarianceReading, apply_reading, variance_reading


def vwci_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    variance: str | VarianceReading = "bhattacharyya",
    differentiate_alpha: bool = False,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """(1 − α_i) L_GT + α_i L_U, with α_i the normalized variance of example i over its T passes.

    Args:
        logits: (T, B, C), T stochastic passes over the same B examples.
        labels: (B,) class indices.
        variance: how disagreement is read as α, see :func:`singleshot.normalized_variance`.
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
    reading = variance_reading(variance, name="variance")
    check_scores(logits, ("(T, B, C)",))
    check_passes(logits)
    terms = loss_terms(logits, labels, weight, ignore_index, reduction)
    alpha = apply_reading(reading, terms.log_probs if differentiate_alpha else terms.log_probs.detach())
    return reduce_loss((1 - alpha) * terms.ground_truth + alpha * terms.uniform, terms, reduction)


class VWCILoss(ClassificationLoss):
    """Module over :func:`vwci_loss`."""

    def __init__(
        self,
        *,
        variance: str | VarianceReading = "bhattacharyya",
        differentiate_alpha: bool = False,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
    ) -> None:
        variance_reading(variance, name="variance")  # an unknown name is an error now, not at the first step
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)
        self.variance = variance
        self.differentiate_alpha = differentiate_alpha

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Logits (T, B, C), labels (B,)."""
        return vwci_loss(
            logits,
            labels,
            variance=self.variance,
            differentiate_alpha=self.differentiate_alpha,
            **self.shared_options(),
        )
