"""What is compared: the paper's losses and the rows we add, each as the change it makes to a recipe."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from singleshot.common.checks import check_choice
from singleshot.training.recipe import Recipe
from singleshot.training.recipe_file import preset

BETAS = (1.0, 0.1, 0.01, 0.001, 0.0001)
"""The strengths of CI in the paper."""
EPSILONS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
"""Strengths of label smoothing, of which held-out images choose one."""
PASSES = (2, 3, 5, 10)
"""Numbers of stochastic passes of Fig. 4."""
DEFAULT_MEASURE = "bhattacharyya"
OTHER_MEASURES = {
    "total_variation": "total variation",
    "epistemic": "epistemic",
    "confident_disagreement": "confident disagreement",
    "mutual_information": "mutual information",
    "hellinger": "Hellinger",
    "unbiased": "unbiased",
}
"""Disagreement measures other than 1 − BC."""
HELD_OUT = 0.1


@dataclass(frozen=True)
class Method:
    """A way to train, told from the others by what it changes in the recipe they share."""

    name: str
    title: str
    changes: dict[str, Any] = field(hash=False)
    starts_from: str | None = None  # the method whose trained weights it takes


def _methods() -> list[Method]:
    return [
        Method("baseline", "Baseline", {"loss": "cross_entropy"}),
        *(Method(f"ci_{beta:g}", f"CI, β = {beta:g}", {"loss": "ci", "beta": beta}) for beta in BETAS),
        Method("vwci", "VWCI", _vwci()),
        Method("vwci_star", "VWCI*", _vwci(), starts_from="baseline"),
        Method("passes", "Cross-entropy, T = 5", {"loss": "cross_entropy", "samples": 5}),
        Method("focal", "Focal, γ = 3", {"loss": "focal", "focus": 3.0}),
        *(
            Method(f"smoothing_{epsilon:g}", f"Label smoothing, ε = {epsilon:g}", _smoothing(epsilon))
            for epsilon in EPSILONS
        ),
        *(
            Method(
                f"held_out_smoothing_{epsilon:g}",
                f"Label smoothing, ε = {epsilon:g}, on 90 %",
                {**_smoothing(epsilon), "validation": HELD_OUT},
            )
            for epsilon in EPSILONS
        ),
        Method("held_out_baseline", "Baseline, on 90 %", {"loss": "cross_entropy", "validation": HELD_OUT}),
        *(Method(f"vwci_{measure}", f"VWCI, {title}", _vwci(measure)) for measure, title in OTHER_MEASURES.items()),
        *(Method(f"vwci_T{passes}", f"VWCI, T = {passes}", _vwci(samples=passes)) for passes in PASSES),
    ]


def _vwci(measure: str = DEFAULT_MEASURE, samples: int = 5) -> dict[str, Any]:
    # Both are said whatever the defaults are: the rows of the paper must not change with our taste.
    return {"loss": "vwci", "samples": samples, "measure": measure}


def _smoothing(epsilon: float) -> dict[str, Any]:
    return {"loss": "label_smoothing", "label_smoothing": epsilon}


METHODS = {method.name: method for method in _methods()}


def method_of(name: str) -> Method:
    """The method of this name.

    >>> method_of("ci_0.1").changes
    {'loss': 'ci', 'beta': 0.1}
    """
    check_choice("method", name, tuple(METHODS))
    return METHODS[name]


def method_behind(recipe: Recipe, *, starts_from_another: bool) -> Method:
    """The method that a recipe of a grid was made by: of those that fit, the one that says most about it."""
    fitting = [
        method
        for method in METHODS.values()
        if (method.starts_from is not None) == starts_from_another
        and all(getattr(recipe, name) == value for name, value in method.changes.items())
    ]
    if not fitting:
        raise ValueError(f"no method has a recipe with loss {recipe.loss!r} and samples {recipe.samples}")
    return max(fitting, key=lambda method: len(method.changes))


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
