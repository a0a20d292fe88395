"""The methods under comparison, each as changes to a shared recipe, and the recipes of both scales."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from singleshot.common.checks import check_choice
from singleshot.grid.training_job import TrainingJob
from singleshot.training.recipe import Recipe
from singleshot.training.recipe_file import preset

BETAS = (1.0, 0.1, 0.01, 0.001, 0.0001)
"""Values of β for CI, from the paper."""
CI = tuple(f"ci_{beta:g}" for beta in BETAS)
EPSILONS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
"""Candidates for the ε of label smoothing; held-out images select one."""
PASSES = (2, 3, 5, 10)
"""Numbers of stochastic passes in Fig. 4."""
TEMPERATURE_SCALING = {"ts_case1": "baseline", "ts_case2": "held_out_baseline"}
"""Rows of tables that rescale the runs of another method."""
OTHER_MEASURES = {
    "total_variation": "total variation",
    "epistemic": "epistemic",
    "confident_disagreement": "confident disagreement",
    "mutual_information": "mutual information",
    "hellinger": "Hellinger",
    "unbiased": "unbiased",
}
"""Disagreement measures other than 1 − BC."""


@dataclass(frozen=True)
class Method:
    """A training method, defined by its changes to the shared recipe."""

    title: str
    changes: dict[str, Any] = field(hash=False)
    starts_from: str | None = None  # the method that provides the initial weights
    rate: float = 1.0  # multiplies the learning rate of the shared recipe


_CE = {"loss": "cross_entropy"}


def _smoothing(epsilon: float, **changes: Any) -> dict[str, Any]:
    return {"loss": "label_smoothing", "label_smoothing": epsilon, **changes}


def _vwci(measure: str = "bhattacharyya", samples: int = 5) -> dict[str, Any]:
    # Explicit values: the rows of the paper must not depend on our defaults.
    return {"loss": "vwci", "samples": samples, "measure": measure, "strength": 1.0}


_ONE_GRADIENT = {"gradient_passes": 1}
_AUTO = {"strength": "auto", "validation": 0.1, "last_share": 0.5, "give_back": 0.2}
_AUTO_KEPT = {**_AUTO, "give_back": 0.0}
_ON_90 = {"validation": 0.1}
METHODS = {
    "baseline": Method("Baseline", _CE),
    **{f"ci_{beta:g}": Method(f"CI, β = {beta:g}", {"loss": "ci", "beta": beta}) for beta in BETAS},
    "vwci": Method("VWCI", _vwci()),
    "vwci_star": Method("VWCI*", _vwci(), starts_from="baseline"),
    "vwci_star_fast": Method("VWCI*, 5 × learning rate", _vwci(), starts_from="baseline", rate=5.0),
    "passes": Method("Cross-entropy, T = 5", {"loss": "cross_entropy", "samples": 5}),
    "focal": Method("Focal, γ = 3", {"loss": "focal", "focus": 3.0}),
    "flsd": Method("Focal, FLSD-53", {"loss": "flsd"}),
    "dual_focal": Method("Dual focal, γ = 5", {"loss": "dual_focal", "focus": 5.0}),
    "adafocal": Method("AdaFocal, on 90 %", {"loss": "adafocal", **_ON_90}),
    "brier": Method("Brier score", {"loss": "brier"}),
    "margin_smoothing": Method("Margin smoothing, λ = 0.1", {"loss": "margin_smoothing", "penalty": 0.1}),
    **{
        name: Method(f"{title}, λ = 1", {"loss": name, "penalty": 1.0})
        for name, title in {"mmce": "MMCE", "mdca": "MDCA", "dca": "DCA", "soft_ece": "Soft-binned ECE"}.items()
    },
    **{f"smoothing_{e:g}": Method(f"Label smoothing, ε = {e:g}", _smoothing(e)) for e in EPSILONS},
    **{
        f"held_out_smoothing_{e:g}": Method(f"Label smoothing, ε = {e:g}, on 90 %", _smoothing(e, **_ON_90))
        for e in EPSILONS
    },
    "held_out_baseline": Method("Baseline, on 90 %", {"loss": "cross_entropy", **_ON_90}),
    **{f"vwci_{measure}": Method(f"VWCI, {title}", _vwci(measure)) for measure, title in OTHER_MEASURES.items()},
    "passes_one_gradient": Method("Cross-entropy, T = 5, k = 1", {"samples": 5, **_CE, **_ONE_GRADIENT}),
    "vwci_one_gradient": Method("VWCI, k = 1", {**_vwci(), **_ONE_GRADIENT}),
    **{
        f"vwci_{measure}_one_gradient": Method(
            f"VWCI, {OTHER_MEASURES[measure]}, k = 1", {**_vwci(measure), **_ONE_GRADIENT}
        )
        for measure in ("hellinger", "total_variation")
    },
    "vwci_permuted": Method("VWCI, α permuted in batch", {**_vwci(), "alpha": "permuted"}),
    "vwci_batch_mean": Method("VWCI, mean α of the batch", {**_vwci(), "alpha": "batch_mean"}),
    "vwci_scaled": Method("VWCI, c · (1 − BC)", {**_vwci(), "alpha": "scaled"}),
    "auto_smoothing": Method("Self-tuned smoothing", _smoothing(0.1, **_AUTO)),
    "auto_smoothing_kept": Method("Self-tuned smoothing, on 90 %", _smoothing(0.1, **_AUTO_KEPT)),
    "auto_vwci": Method("Self-tuned VWCI", {**_vwci(), **_ONE_GRADIENT, **_AUTO}),
    "auto_vwci_kept": Method("Self-tuned VWCI, on 90 %", {**_vwci(), **_ONE_GRADIENT, **_AUTO_KEPT}),
    **{f"vwci_T{passes}": Method(f"VWCI, T = {passes}", _vwci(samples=passes)) for passes in PASSES},
}


def job_of(base: Recipe, method: str, seed: int) -> TrainingJob:
    """Return the job of a method with the shared recipe ``base``.

    >>> job_of(Recipe(dataset="digits", epochs=3), "ci_0.1", seed=1).recipe.beta
    0.1
    """
    check_choice("method", method, tuple(METHODS))
    chosen = METHODS[method]
    rate = chosen.rate * base.learning_rate
    recipe = replace(base, seed=seed, learning_rate=rate, **chosen.changes).resolved()
    if chosen.starts_from is None:
        return TrainingJob(recipe, label=chosen.title)
    start = job_of(base, chosen.starts_from, seed).recipe
    return TrainingJob(replace(recipe, last_share=0.2), start, label=chosen.title)


Scale = Literal["paper", "small"]

SMALL_MODELS = ("resnet18", "vgg16")
"""One network with stochastic depth and one with dropout."""
PAPER_MODELS = ("resnet34", "vgg16", "wide_resnet16_8", "densenet40_12")

# Without augmentation, even a narrow network memorises a few thousand images within minutes.
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
# Digits are so easy that a network becomes overconfident only with about a hundred training images.
_DIGITS: dict[str, Any] = {"train_images": 100, "epochs": 40, "batch_size": 25, "width": 0.125}


def base_recipe(scale: Scale, *, dataset: str, model: str) -> Recipe:
    """Return the recipe that all methods share on a data set with a network.

    >>> base_recipe("paper", dataset="cifar100", model="vgg16").epochs
    300
    """
    recipe = preset("paper", model=model, dataset=dataset)
    if scale == "small":
        digits = _DIGITS if dataset == "digits" else {}
        recipe = replace(recipe, **{"batch_size": 64, **_SMALL, **_BY_MODEL.get(model, {}), **digits})
    return replace(recipe, evaluate_every=recipe.epochs)  # only the last weights are measured
