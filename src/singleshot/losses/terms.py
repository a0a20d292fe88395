"""The terms that every loss combines, the reduction, and the base class of the loss modules.

Logits are (B, C) or (T, B, C), and the labels class indices (B,) or soft labels (B, C); `singleshot.common.layout`
describes the dense layouts and binary classifiers with one logit.

Class weights and ``ignore_index`` have the semantics of ``torch.nn.functional.cross_entropy`` with ``label_smoothing``:
weight w_c multiplies every log-probability of class c, and a mean divides by the summed weight of the labels, or by
the number of examples for soft labels. An ignored example has no loss and no weight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, SupportsFloat, TypedDict

import torch
from torch import Tensor, nn

from singleshot.common.checks import (
    check_choice,
    check_labels,
    check_logits,
    check_range,
    check_rows,
    check_scores,
    check_tensor,
    probability_rows,
    values_can_be_read,
)
from singleshot.common.layout import by_example
from singleshot.uncertainty import finite_log_softmax

REDUCTIONS = ("none", "mean", "sum")
SOFT_LABELS = (
    "soft labels must lie in [0, 1] and sum to 1 in each row (for several labels per example, pass "
    "logits.unsqueeze(-2) and labels.unsqueeze(-2))"
)


@dataclass(frozen=True)
class Terms:
    """The terms of a loss over N examples; tensors of shape (N,) unless noted.

    The labels of an example are its K = 1 class index, or the K = C entries of its soft label.
    """

    log_probs: Tensor  # (T, N, C)
    average: Tensor  # (N, C), (1/T) Σ_t log p_t: terms that are linear in log p share it, and its backward pass
    counted: Tensor  # whether the example is not ignored
    labels: Tensor  # class indices, 0 if ignored, or soft labels (N, C)
    label_log_probs: Tensor  # (T, N, K)
    label_weights: Tensor  # (N, K), w_y, or y_c w_c; 0 if ignored
    class_weights: Tensor  # (C,)
    divisor: Tensor  # of the mean, a scalar
    shape: tuple[int, ...]  # of the examples
    reduction: str

    @property
    def example_weight(self) -> Tensor:
        """w_y, or Σ_c y_c w_c."""
        return self.label_weights.sum(-1)

    @property
    def ground_truth(self) -> Tensor:
        """−(1/T) Σ_t w_y log p_t(y)."""
        of_labels = self.average if self.labels.ndim == 2 else self.average.gather(-1, self.labels.unsqueeze(-1))
        return -(of_labels * self.label_weights).sum(-1)

    @property
    def uniform(self) -> Tensor:
        """−(1/T) Σ_t (1/C) Σ_c w_c log p_t(c)."""
        return -(self.average * self.class_weights).mean(-1)

    @property
    def target(self) -> Tensor:
        """The labels as probabilities (N, C)."""
        if self.labels.ndim == 2:
            return self.labels.to(self.log_probs)
        return torch.zeros_like(self.log_probs[0]).scatter(1, self.labels.unsqueeze(1), 1)

    def over_labels(self, values: Tensor) -> Tensor:
        """Weighted sum over the labels of values (T, N, K), averaged over the passes."""
        return (values.mean(0) * self.label_weights).sum(-1)

    def reduce(self, losses: Tensor) -> Tensor:
        """Return the losses of the examples (N,) in the shape of the labels, their sum, or their weighted mean."""
        losses = torch.where(self.counted, losses, 0)
        if self.reduction == "none":
            return losses.reshape(self.shape)
        if self.reduction == "sum":
            return losses.sum()
        return losses.sum() / self.divisor


def loss_terms(
    logits: Tensor, labels: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
) -> Terms:
    """Check the arguments of a loss and compute its terms."""
    check_choice("reduction", reduction, REDUCTIONS)
    check_tensor("logits", logits)
    logits, labels, shape = by_example(logits, labels)
    check_scores(logits, ("(T, B, C)",))
    examples, classes = logits.shape[1:]
    is_soft = labels.is_floating_point()
    if is_soft:
        counted = torch.ones(examples, dtype=torch.bool, device=labels.device)
        if values_can_be_read(labels):
            check_rows(labels.detach(), probability_rows, SOFT_LABELS)
    else:
        labels = check_labels(labels, examples, classes, ignore_index=ignore_index)
        counted = labels != ignore_index
    check_logits(logits, ("(T, B, C)",), counted)
    if weight is not None:
        check_tensor("weight", weight)
        if weight.shape != (classes,):
            raise ValueError(f"weight must have shape ({classes},), one per class, got {tuple(weight.shape)}")

    if not is_soft and not (values_can_be_read(counted) and bool(counted.all())):
        # Not a product, which would keep an ignored NaN.
        labels, logits = torch.where(counted, labels, 0), torch.where(counted.unsqueeze(1), logits, 0)
    log_probs = finite_log_softmax(logits)
    # First: gradients are added up in the order of these operations. One pass is its own mean, without a copy.
    average = log_probs.squeeze(0) if len(log_probs) == 1 else log_probs.mean(0)
    class_weights = torch.ones_like(log_probs[0, 0]) if weight is None else weight.to(log_probs)
    if is_soft:
        label_log_probs, label_weights = log_probs, labels.to(log_probs) * class_weights
    else:
        label_log_probs = log_probs.gather(-1, labels.expand(len(log_probs), -1).unsqueeze(-1))
        label_weights = torch.where(counted, class_weights[labels], 0).unsqueeze(-1)
    return Terms(
        log_probs=log_probs,
        average=average,
        counted=counted,
        labels=labels,
        label_log_probs=label_log_probs,
        label_weights=label_weights,
        class_weights=class_weights,
        divisor=counted.sum() if is_soft else label_weights.sum(),
        shape=shape,
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
        """Compute the loss of logits (B, C) or (T, B, C) and labels (B,); see docs/losses.md for other layouts."""
        return type(self).function(logits, labels, weight=self.weight, **self._options())

    def _options(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_") and name != "training"}

    def extra_repr(self) -> str:
        """Return the options for the module's repr."""
        weight = {} if self.weight is None else {"weight": f"<{len(self.weight)} classes>"}
        return ", ".join(f"{name}={value!r}" for name, value in {**self._options(), **weight}.items())
