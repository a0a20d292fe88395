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

from singleshot.uncertainty import log_probabilities

REDUCTIONS = ("none", "mean", "sum")


@dataclass(frozen=True)
class Terms:
    """Per-example terms, averaged over the T passes; all but ``log_probs`` have shape (B,) and are 0 where ignored."""

    log_probs: Tensor  # (T, B, C)
    ground_truth: Tensor  # −w_y (1/T) Σ_t log p_t(y)
    uniform: Tensor  # −(1/T) Σ_t (1/C) Σ_c w_c log p_t(c)
    example_weight: Tensor  # w_y
    class_weight: Tensor  # (1/C) Σ_c w_c


def loss_terms(logits: Tensor, labels: Tensor, weight: Tensor | None, ignore_index: int) -> Terms:
    """Both cross-entropies of (B, C) or (T, B, C) logits, from one log-softmax."""
    log_probs = log_probabilities(logits.unsqueeze(0) if logits.ndim == 2 else logits)
    _check_labels(labels, log_probs, ignore_index)
    _check_weight(weight, log_probs)
    counted = labels != ignore_index
    index = torch.where(counted, labels, 0).long()
    average = log_probs.mean(0)  # both terms are linear in log p, so the passes can be averaged first
    mask = counted.to(average.dtype)
    if weight is None:
        weighted, example_weight, class_weight = average, mask, mask
    else:
        weight = weight.to(average)
        weighted, example_weight, class_weight = average * weight, weight[index] * mask, weight.mean() * mask
    return Terms(
        log_probs=log_probs,
        ground_truth=-average.gather(-1, index.unsqueeze(-1)).squeeze(-1) * example_weight,
        uniform=-weighted.mean(-1) * mask,
        example_weight=example_weight,
        class_weight=class_weight,
    )


def reduce_loss(losses: Tensor, terms: Terms, reduction: str) -> Tensor:
    """None, the sum, or the weighted mean of per-example losses."""
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    if reduction == "mean":
        return losses.sum() / terms.example_weight.sum()
    raise ValueError(f"reduction={reduction!r} is unknown; choose one of {', '.join(REDUCTIONS)}")


class ClassificationLoss(nn.Module):
    """What the loss modules share: class weights that move with the module, ``ignore_index`` and ``reduction``."""

    weight: Tensor | None

    def __init__(self, *, weight: Tensor | None, ignore_index: int, reduction: str) -> None:
        super().__init__()
        if reduction not in REDUCTIONS:
            raise ValueError(f"reduction={reduction!r} is unknown; choose one of {', '.join(REDUCTIONS)}")
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction = reduction

    def shared_options(self) -> dict[str, Any]:
        """The options this module passes on to its function."""
        return {"weight": self.weight, "ignore_index": self.ignore_index, "reduction": self.reduction}

    def extra_repr(self) -> str:
        """The options, as they were given."""
        shown = {name: value for name, value in vars(self).items() if not name.startswith("_") and name != "training"}
        return ", ".join(f"{name}={value!r}" for name, value in shown.items())


def require_fraction(name: str, value: float) -> None:
    """Refuse a value outside [0, 1]."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must lie in [0, 1], got {value}")


def require_non_negative(name: str, value: float) -> None:
    """Refuse a negative value, and NaN and infinity with it."""
    if not 0 <= value < float("inf"):
        raise ValueError(f"{name} must be a finite number of at least 0, got {value}")


def _check_labels(labels: Tensor, log_probs: Tensor, ignore_index: int) -> None:
    _, examples, classes = log_probs.shape
    if labels.shape != (examples,):
        raise ValueError(
            f"labels must have shape ({examples},), one class index per example, got {tuple(labels.shape)}"
        )
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ValueError(f"labels must be integer class indices, got {labels.dtype}")
    # Reading values off an accelerator would stall every step, and a compiled graph cannot branch on them.
    if labels.device.type == "cpu" and not torch.compiler.is_compiling():
        wrong = (labels != ignore_index) & ((labels < 0) | (labels >= classes))
        if wrong.any():
            row = int(wrong.int().argmax())
            raise ValueError(
                f"labels must lie in [0, {classes}), the classes of the logits; labels[{row}] is {labels[row]}"
            )


def _check_weight(weight: Tensor | None, log_probs: Tensor) -> None:
    if weight is not None and weight.shape != log_probs.shape[-1:]:
        raise ValueError(f"weight must have shape ({log_probs.shape[-1]},), one per class, got {tuple(weight.shape)}")
