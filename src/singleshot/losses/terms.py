"""The terms that every loss combines, the reduction, and the base class of the loss modules.

Class weights and ``ignore_index`` have the semantics of ``torch.nn.functional.cross_entropy`` with ``label_smoothing``:
weight w_c multiplies every log-probability of class c, and a mean divides by the summed weight of the labels. An
ignored example has no loss and no weight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, SupportsFloat, TypedDict

import torch
from torch import Tensor, nn

from singleshot.common.checks import check_choice, check_labels, check_logits, check_range, check_scores, check_tensor
from singleshot.uncertainty import finite_log_softmax

REDUCTIONS = ("none", "mean", "sum")


@dataclass(frozen=True)
class Terms:
    """The terms of a loss; tensors of shape (B,), averaged over the T passes, unless noted."""

    log_probs: Tensor  # (T, B, C)
    counted: Tensor  # whether the example is not ignored
    index: Tensor  # the label, 0 if ignored
    ground_truth: Tensor  # −w_y (1/T) Σ_t log p_t(y)
    uniform: Tensor  # −(1/T) Σ_t (1/C) Σ_c w_c log p_t(c)
    example_weight: Tensor  # w_y, 0 if ignored
    mean_class_weight: Tensor  # (1/C) Σ_c w_c, a scalar
    reduction: str

    def reduce(self, losses: Tensor) -> Tensor:
        """Return the per-example losses (B,), their sum, or their weighted mean."""
        losses = torch.where(self.counted, losses, 0)  # not a product, which would keep an ignored NaN
        if self.reduction == "none":
            return losses
        if self.reduction == "sum":
            return losses.sum()
        return losses.sum() / self.example_weight.sum()


def loss_terms(
    logits: Tensor, labels: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
) -> Terms:
    """Check the arguments of a loss and compute its terms from logits (B, C) or (T, B, C)."""
    check_choice("reduction", reduction, REDUCTIONS)
    check_scores(logits, ("(B, C)", "(T, B, C)"))
    examples, classes = logits.shape[-2:]
    labels = check_labels(labels, examples, classes, ignore_index=ignore_index)
    counted = labels != ignore_index
    check_logits(logits, ("(B, C)", "(T, B, C)"), counted)
    if weight is not None:
        check_tensor("weight", weight)
        if weight.shape != (classes,):
            raise ValueError(f"weight must have shape ({classes},), one per class, got {tuple(weight.shape)}")

    log_probs = finite_log_softmax(logits.unsqueeze(0) if logits.ndim == 2 else logits)
    average = log_probs.mean(0)  # both terms are linear in log p
    weight = torch.ones_like(average[0]) if weight is None else weight.to(average)
    index = torch.where(counted, labels, 0)
    example_weight = torch.where(counted, weight[index], 0)
    return Terms(
        log_probs=log_probs,
        counted=counted,
        index=index,
        ground_truth=-average.gather(-1, index.unsqueeze(-1)).squeeze(-1) * example_weight,
        uniform=-(average * weight).mean(-1),
        example_weight=example_weight,
        mean_class_weight=weight.mean(),
        reduction=reduction,
    )


def check_strength(loss: str, name: str, value: SupportsFloat, interval: str) -> float:
    """Return the strength of a loss as a float; that of another loss is an error."""
    owner = getattr(value, "loss", loss)
    if owner != loss:
        raise ValueError(f"{name} must be the strength of {loss}, got that of {owner}")
    return check_range(name, value, interval)


class LossOptions(TypedDict, total=False):
    """Options of every loss: class weights, an ignored label, and ``mean``, ``sum`` or ``none``."""

    weight: Tensor | None
    ignore_index: int
    reduction: str


class ClassificationLoss(nn.Module):
    """Base class of the loss modules: calls a loss function with the options of the module."""

    function: ClassVar[Callable[..., Tensor]]
    weight: Tensor | None

    def __init__(self, *, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__()
        check_choice("reduction", reduction, REDUCTIONS)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction = reduction

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the loss of logits (B, C) or (T, B, C) and labels (B,)."""
        return type(self).function(logits, labels, weight=self.weight, **self._options())

    def _options(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_") and name != "training"}

    def extra_repr(self) -> str:
        """Return the options for the module's repr."""
        weight = {} if self.weight is None else {"weight": f"<{len(self.weight)} classes>"}
        return ", ".join(f"{name}={value!r}" for name, value in {**self._options(), **weight}.items())
