"""The recipes that tables are measured with: as in the paper, or small enough for two cores and an afternoon.

The small settings were chosen by the baseline alone, on validation images cut from the training images
(docs/results.md), so that it learns its training images by heart and is overconfident, as in the paper.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from singleshot.training.presets import preset
from singleshot.training.recipe import Recipe

Scale = Literal["paper", "small"]

SMALL_MODELS = ("resnet18", "vgg16")
"""One network with stochastic depth and one with dropout."""
PAPER_MODELS = ("resnet34", "vgg16", "wide_resnet16_8", "densenet40_12")

# Without augmentation a narrow network, too, learns a few thousand images by heart within minutes.
_SMALL: dict[str, Any] = {
    "width": 0.25,
    "train_images": 5_000,
    "padding": 0,
    "mirror": False,
    "epochs": 30,
    "milestones": (0.5, 0.75),
}
_BY_MODEL: dict[str, dict[str, Any]] = {
    "vgg16": {"learning_rate": 0.02, "noise": 0.2},
    "resnet18": {"image_size": 16},
    "resnet34": {"image_size": 16},
    "wide_resnet16_8": {"image_size": 16, "width": 0.125},
    "densenet40_12": {"image_size": 16},
}
# Handwritten digits are so easy that only a hundred of them make a network overconfident.
_DIGITS: dict[str, Any] = {"train_images": 100, "epochs": 40, "batch_size": 25, "width": 0.125}


def base_recipe(scale: Scale, *, dataset: str, model: str) -> Recipe:
    """What all methods share on this data set with this network, at this scale.

    >>> base_recipe("paper", dataset="cifar100", model="vgg16").epochs
    300
    """
    recipe = preset("paper", model=model, dataset=dataset)
    if scale == "small":
        digits = _DIGITS if dataset == "digits" else {}
        recipe = replace(recipe, **{"batch_size": 64, **_SMALL, **_BY_MODEL.get(model, {}), **digits})
    # The last weights are measured whatever the epochs before said: looking at them would only take time.
    return replace(recipe, evaluate_every=recipe.epochs)
