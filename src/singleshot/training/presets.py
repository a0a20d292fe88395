"""Recipes to start from: the paper's for each network, and small ones that a laptop finishes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from singleshot.training.recipe import Recipe

PresetName = Literal["paper", "small"]

_PAPER: dict[str, dict[str, Any]] = {
    "vgg16": {"batch_size": 256},
}
_SMALL: dict[str, dict[str, Any]] = {
    "vgg16": {"batch_size": 128},
    # These share almost nothing between passes: on all of CIFAR-100 an epoch of theirs would take half an hour.
    "wide_resnet16_8": {"train_images": 10_000, "epochs": 15},
    "densenet40_12": {"train_images": 10_000, "epochs": 15},
}
# A mirrored 2 is no 2.
_READ_ONE_WAY = ("digits", "mnist")


def preset(name: PresetName, *, model: str, dataset: str) -> Recipe:
    """The recipe of this name for a network and a data set.

    >>> preset("paper", model="vgg16", dataset="cifar100").batch_size
    256
    >>> preset("small", model="resnet18", dataset="digits").mirror
    False
    """
    recipe = Recipe(model=model, dataset=dataset, mirror=dataset not in _READ_ONE_WAY)
    if name == "paper":
        return replace(recipe, **_PAPER.get(model, {}))
    return replace(recipe, **{"width": 0.25, "epochs": 30, "validation": 0.1, **_SMALL.get(model, {})})
