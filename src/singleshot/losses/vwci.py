"""The variance-weighted confidence-integrated loss: label smoothing with a strength per example."""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsFloat

import torch
from torch import Tensor

from singleshot.common.checks import check_passes
from singleshot.common.layout import has_passes
from singleshot.losses.cross_entropy import cross_entropy_loss
from singleshot.losses.terms import ClassificationLoss, LossOptions, check_strength, loss_terms
from singleshot.uncertainty import DisagreementMeasure, apply_measure, resolve_measure

if TYPE_CHECKING:
    from typing_extensions import Unpack


def vwci_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    measure: str | DisagreementMeasure = "bhattacharyya",
    strength: SupportsFloat = 1.0,
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
        strength: the exponent of α is its inverse: a strength above 1 increases every α, one below 1 decreases it. 1
            leaves it as measured; a :class:`singleshot.SelfTunedStrength` tunes it during training.
        differentiate_alpha: whether gradients flow through α. By default they do not, and the loss is exactly the
            cross-entropy of every pass against (1 − α_i)·onehot + α_i·uniform.
        weight: one weight per class, as in ``torch.nn.functional.cross_entropy``.
        ignore_index: label of the examples to ignore.
        reduction: ``mean``, ``sum``, or ``none`` for one loss per example.

    >>> logits = torch.tensor([[[4.0, 0.0]], [[0.0, 4.0]]])  # two passes that disagree about one example
    >>> vwci_loss(logits, torch.tensor([0]), reduction="none")
    tensor([2.0181])
    """
    return vwci_loss_and_alpha(
        logits,
        labels,
        measure=measure,
        strength=strength,
        differentiate_alpha=differentiate_alpha,
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
    )[0]


def vwci_loss_and_alpha(
    logits: Tensor,
    labels: Tensor,
    *,
    measure: str | DisagreementMeasure,
    strength: SupportsFloat = 1.0,
    differentiate_alpha: bool = False,
    **options: Unpack[LossOptions],
) -> tuple[Tensor, Tensor]:
    """Return the loss of :func:`vwci_loss` and the detached α of every example, in the shape of the labels."""
    function, exponent = resolve_measure(measure), 1 / check_strength("vwci", "strength", strength, "(0, inf)")
    terms = loss_terms(logits, labels, **options)
    if not has_passes(logits, labels):
        raise ValueError(f"logits must have shape (T, B, C), got {tuple(logits.shape)}; {_NO_PASSES}")
    check_passes(terms.log_probs)
    alpha = apply_measure(function, terms.log_probs if differentiate_alpha else terms.log_probs.detach())
    if exponent != 1:  # the clamp avoids 0, where a power below 1 has an infinite gradient
        power = alpha.clamp(min=torch.finfo(alpha.dtype).tiny) ** exponent
        alpha = torch.where(alpha > 0, power, 0)
    return terms.reduce((1 - alpha) * terms.ground_truth + alpha * terms.uniform), alpha.detach().reshape(terms.shape)


_NO_PASSES = "make T stochastic passes with singleshot.sample, or put VWCILoss into evaluation mode for one plain pass"


class VWCILoss(ClassificationLoss):
    """Module form of :func:`vwci_loss`, with the same options.

    In evaluation mode, or for logits without gradients, it also takes those of a single pass, (B, C), and returns their
    cross-entropy, so that a validation loop needs no change.

    >>> loss, labels = VWCILoss(), torch.tensor([0])
    >>> loss.train()(torch.zeros(5, 1, 4), labels), loss.eval()(torch.zeros(1, 4), labels)
    (tensor(1.3863), tensor(1.3863))
    """

    function = staticmethod(vwci_loss)

    def __init__(
        self,
        *,
        measure: str | DisagreementMeasure = "bhattacharyya",
        strength: SupportsFloat = 1.0,
        differentiate_alpha: bool = False,
        **options: Unpack[LossOptions],
    ) -> None:
        resolve_measure(measure)  # fail here, not at the first training step
        check_strength("vwci", "strength", strength, "(0, inf)")
        super().__init__(**options)
        self.measure = measure
        self.strength = strength
        self.differentiate_alpha = differentiate_alpha

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the loss of logits (T, B, C), in evaluation also of (B, C), and labels (B,)."""
        tensors = isinstance(logits, Tensor) and isinstance(labels, Tensor)
        if not tensors or (self.training and logits.requires_grad) or has_passes(logits, labels):
            return super().forward(logits, labels)
        weight, ignore_index, reduction = self.weight, self.ignore_index, self.reduction
        return cross_entropy_loss(logits, labels, weight=weight, ignore_index=ignore_index, reduction=reduction)
