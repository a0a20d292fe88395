"""The two protocols of Table 2 for fitting a temperature."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from singleshot.common.checks import as_tensor, check_labels, check_range
from singleshot.common.layout import fitting_set
from singleshot.common.splits import split_training
from singleshot.posthoc.temperature import TemperatureScaling


def temperature_case1(train_logits: Tensor, train_labels: Tensor) -> TemperatureScaling:
    """Case 1: fit the temperature on the training examples (N, C) of the model.

    The temperature is too low, because the accuracy is higher on training examples. If all of them are classified
    correctly, no temperature is optimal; a bound is returned with a warning.

    >>> import torch
    >>> logits, labels = torch.tensor([[4.0, 0.0]] * 10), torch.tensor([0] * 9 + [1])
    >>> round(temperature_case1(logits, labels).temperature, 3)
    1.82
    """
    return TemperatureScaling.fit(train_logits, train_labels)


def temperature_case2(logits: Tensor, labels: Tensor, held_out: Any = None) -> TemperatureScaling:
    """Case 2: train on 90 % of the examples and fit the temperature on the other 10 %.

    ``logits`` (N, C) and ``labels`` (N,) are those of all training examples. ``held_out`` selects the examples that the
    model was not trained on, by position or by a mask; by default those of ``case2_split(labels)``.

    >>> import torch
    >>> labels = torch.arange(100) % 5
    >>> train, held_out = case2_split(labels)  # train a model on the first
    >>> logits = torch.randn(100, 5, generator=torch.Generator().manual_seed(0)) + 2 * torch.eye(5)[labels]
    >>> scaling = temperature_case2(logits, labels, held_out)
    """
    logits, labels = fitting_set(logits, labels, one_logit=True)
    positions = case2_split(labels)[1] if held_out is None else as_tensor(held_out, "held_out")
    try:
        chosen, chosen_labels = logits[positions], labels[positions]
    except IndexError as error:
        raise ValueError(f"held_out must select some of the {len(labels)} examples: {error}") from None
    return TemperatureScaling.fit(chosen, chosen_labels)


def case2_split(labels: Any, *, held_out: float = 0.1) -> tuple[Tensor, Tensor]:
    """Return the positions of the examples to train on and to hold out: deterministic and stratified by class.

    >>> train, held_out = case2_split([0, 1] * 50)
    >>> len(train), len(held_out)
    (90, 10)
    """
    check_range("held_out", held_out, "(0, 1)")
    labels = as_tensor(labels, "labels")
    if not labels.numel():
        raise ValueError("labels must hold at least one example, got none")
    classes = int(labels.max()) + 1 if not labels.is_floating_point() else 1
    labels = check_labels(labels, labels.numel(), max(classes, 1)).cpu()
    return split_training(labels, validation=held_out, train_images=None)
