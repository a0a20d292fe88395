"""The pieces every loss here is made of: how far each example is from its label and from uniform.

Class weights and ``ignore_index`` mean what they mean in ``torch.nn.functional.cross_entropy`` with
``label_smoothing``: weight w_c multiplies every log-probability of class c, and a mean divides by the summed weight of
the labels. An ignored example has no loss and no weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from singleshot.common.checks import check_choice, check_labels, check_logits, check_scores
from singleshot.uncertainty import finite_log_softmax

REDUCTIONS = ("none", "mean", "sum")


@dataclass(frozen=True)
class Terms:
    """What the losses combine: (B,) tensors, averaged over the T passes, unless said."""

    log_probs: Tensor  # (T, B, C)
    counted: Tensor  # which examples are not ignored
    ground_truth: Tensor  # −w_y (1/T) Σ_t log p_t(y)
    uniform: Tensor  # −(1/T) Σ_t (1/C) Σ_c w_c log p_t(c)
    example_weight: Tensor  # w_y, and 0 where ignored
    mean_class_weight: Tensor  # (1/C) Σ_c w_c, a single number


def loss_terms(logits: Tensor, labels: Tensor, weight: Tensor | None, ignore_index: int, reduction: str) -> Terms:
    """Both cross-entropies of (B, C) or (T, B, C) logits, from one log-softmax; every argument is checked first."""
    check_choice("reduction", reduction, REDUCTIONS)
    check_scores(logits, ("(B, C)", "(T, B, C)"))
    examples, classes = logits.shape[-2:]
    labels = check_labels(labels, examples, classes, ignore_index=ignore_index)
    counted = labels != ignore_index
    check_logits(logits, ("(B, C)", "(T, B, C)"), counted)
    if weight is not None and weight.shape != (classes,):
        raise ValueError(f"weight must have shape ({classes},), one per class, got {tuple(weight.shape)}")

    log_probs = finite_log_softmax(logits.unsqueeze(0) if logits.ndim == 2 else logits)
    average = log_probs.mean(0)  # both terms are linear in log p, so the passes can be averaged first
    weight = torch.ones_like(average[0]) if weight is None else weight.to(average)
    index = torch.where(counted, labels, 0)
    example_weight = torch.where(counted, weight[index], 0)
    return Terms(
        log_probs=log_probs,
        counted=counted,
        ground_truth=-average.gather(-1, index.unsqueeze(-1)).squeeze(-1) * example_weight,
        uniform=-(average * weight).mean(-1),
        example_weight=example_weight,
        mean_class_weight=weight.mean(),
    )


def reduce_loss(losses: Tensor, terms: Terms, reduction: str) -> Tensor:
    """The per-example losses, their sum, or their weighted mean."""
    losses = torch.where(terms.counted, losses, 0)  # not a product: an ignored NaN, too, is ignored
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.sum() / terms.example_weight.sum()


class ClassificationLoss(nn.Module):
    """What the loss modules share: class weights that move with the module, ``ignore_index`` and ``reduction``."""

    weight: Tensor | None

    def __init__(self, *, weight: Tensor | None, ignore_index: int, reduction: str) -> None:
        super().__init__()
        check_choice("reduction", reduction, REDUCTIONS)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction = reduction

    def shared_options(self) -> dict[str, Any]:
        """The options this module passes on to its function."""
        return {"weight": self.weight, "ignore_index": self.ignore_index, "reduction": self.reduction}

    def extra_repr(self) -> str:
        """The options, as they were given."""
        shown = {name: value for name, value in vars(self).items() if not name.startswith("_") and name != "training"}
        if self.weight is not None:
            shown["weight"] = f"<{len(self.weight)} classes>"
        return ", ".join(f"{name}={value!r}" for name, value in shown.items())
