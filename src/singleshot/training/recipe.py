"""The recipe of a training run: every setting that determines its result. Imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, get_args

from singleshot.common.loss_names import LossName
from singleshot.common.text import quoted

MeasureName = Literal[
    "bhattacharyya",
    "unbiased",
    "mutual_information",
    "total_variation",
    "hellinger",
    "confident_disagreement",
    "epistemic",
]
MemoryName = Literal["normal", "low"]
AlphaName = Literal["example", "permuted", "batch_mean", "scaled"]
PrecisionName = Literal["float32", "bfloat16", "float16"]

RENAMED = {"variance": "measure", "epsilon": "label_smoothing"}
"""Field names of version 0.1 and their present names: stored recipes and results of that version are still read."""
ADDED = {
    "gradient_passes": None,
    "strength": 1.0,
    "give_back": None,
    "alpha": "example",
    "track": False,
    "classes": None,
    "penalty": None,
}
"""Fields that recipes of version 0.1 lack, with the values that those runs had."""
STRENGTHS: dict[LossName, str] = {
    "label_smoothing": "label_smoothing",
    "ci": "beta",
    "entropy_ci": "gamma",
    "focal": "focus",
    "dual_focal": "focus",
    "vwci": "strength",
    "mmce": "penalty",
    "mdca": "penalty",
    "dca": "penalty",
    "soft_ece": "penalty",
    "margin_smoothing": "penalty",
}
"""The field that sets the strength of a loss."""


@dataclass(frozen=True)
class Recipe:
    """The settings of a training run: the same recipe gives the same weights.

    ``singleshot train --help`` explains every field.

    >>> recipe = Recipe(dataset="digits", model="vgg16", loss="vwci", epochs=30)
    >>> recipe.batch_size, recipe.learning_rate, recipe.seed
    (64, 0.1, 0)
    """

    # Data
    dataset: str = "cifar100"  # a name from `singleshot data list`, or a folder of images by class
    image_size: int = 32  # images are resized to this height and width
    classes: int | None = None  # use the images of the first classes only; None: all
    train_images: int | None = None  # use at most this many, stratified by class; None: all
    validation: float = 0.0  # fraction of these images that is held out to select the best checkpoint, or for auto
    padding: int = 4  # pixels of black padding before a random crop; 0: no crop
    mirror: bool = True  # flip half of the images left to right

    # Network
    model: str = "resnet18"  # a name from singleshot.list_models()
    width: float = 1.0  # multiplies the channels of every layer
    noise: float | None = None  # dropout or stochastic depth rate; None: the default of the network

    # Loss
    loss: LossName = "vwci"  # the loss to minimize
    samples: int | None = None  # stochastic passes per step; None: 5 for vwci, 1 for other losses
    gradient_passes: int | None = None  # how many have gradients, the others only inform alpha; None: all, with auto 1
    measure: MeasureName = "bhattacharyya"  # vwci: disagreement measure that gives each example its weight
    differentiate_alpha: bool = False  # vwci: propagate gradients through the weight
    # vwci: above 1 raises all weights; auto: held-out images tune it; None: auto for vwci with held-out images, else 1
    strength: float | Literal["auto"] | None = None
    give_back: float | None = None  # auto: train on the held-out images, too, in this last fraction; None: 0.2
    alpha: AlphaName = "example"  # vwci: the weight of each example, or one of three ablations
    beta: float = 0.1  # ci: weight of the KL divergence from uniform
    gamma: float = 0.1  # entropy_ci: weight of the entropy
    label_smoothing: float = 0.1  # label_smoothing: fraction of the target that is uniform
    focus: float = 3.0  # focal, dual_focal: exponent; larger values reduce the weight of well classified examples
    penalty: float | None = None  # weight of mmce, mdca, dca, soft_ece and margin_smoothing; None: their default
    last_share: float | None = None  # apply the loss in this last fraction of the steps; None: 1, for auto 0.5
    start_from: str | None = None  # trained run to take weights from; only the last fraction, default 0.2, is trained

    # Optimization: SGD with a step schedule of the learning rate
    epochs: int = 300  # passes over the training images; each leaves out the images that do not fill a batch
    batch_size: int = 64  # images per step, over all processes
    learning_rate: float = 0.1  # initial learning rate
    milestones: tuple[float, ...] = (0.2, 0.4, 8 / 15, 2 / 3, 5 / 6)  # fractions of the run where the rate decays
    decay: float = 0.2  # factor of the learning rate at each milestone
    momentum: float = 0.9  # of SGD
    weight_decay: float = 5e-4  # of SGD, on every parameter
    clip_gradient: float | None = None  # maximum gradient norm; None: no clipping

    # Execution: affects rounding and speed only
    seed: int = 0  # of the weights, the order of images, the augmentation and the noise
    memory: MemoryName = "normal"  # low: keep the activations of one pass only, at the cost of time
    precision: PrecisionName = "float32"  # of the forward pass; weights stay float32
    channels_last: bool = True  # use the memory layout that is fastest for convolutions
    compile: bool = False  # compile the network; its stochastic passes then share no computation
    device: str = "auto"  # cpu, cuda, cuda:1, mps; auto: the fastest available
    evaluate_every: int = 1  # epochs between evaluations; the last epoch is always evaluated
    track: bool = False  # also evaluate training images, and images that no run uses; grids measure more at the end

    @property
    def passes(self) -> int:
        """Stochastic passes per step of the loss."""
        return (5 if self.loss == "vwci" else 1) if self.samples is None else self.samples

    @property
    def share(self) -> float:
        """The last fraction of the steps, in which the loss is applied."""
        if self.last_share is not None:
            return self.last_share
        return 0.2 if self.start_from is not None else 0.5 if self.tunes_strength else 1.0

    @property
    def tunes_strength(self) -> bool:
        """Whether held-out images tune the strength; by default for VWCI, unless it is applied only at the end."""
        if self.strength is not None:
            return self.strength == "auto"
        return self.loss == "vwci" and self.validation > 0 and self.last_share is None and self.start_from is None

    @property
    def is_tuned(self) -> bool:
        """Whether held-out images tune the loss: its strength, or the γ of adafocal."""
        return self.tunes_strength or self.loss == "adafocal"

    @property
    def holds_out(self) -> bool:
        """Whether there are images that were not trained on at any time."""
        return self.validation > 0 and not self.give_back

    def resolved(self) -> Recipe:
        """Return the recipe with defaults filled in that depend on other fields; raise ValueError for a bad value."""
        recipe = replace(self, samples=self.passes, last_share=self.share)
        if self.strength is None:
            recipe = replace(recipe, strength="auto" if self.tunes_strength else 1.0)
        if self.tunes_strength and self.loss == "vwci" and self.gradient_passes is None:
            recipe = replace(recipe, gradient_passes=1)
        if self.is_tuned:
            share = 0.2 if self.tunes_strength and self.start_from is None and self.share > 0.2 else 0.0
            give_back = share if self.give_back is None else self.give_back
            recipe = replace(recipe, validation=self.validation or 0.1, give_back=give_back)
        for field, is_valid, requirement in _requirements(recipe):
            if not is_valid:
                flag = "--" + field.replace("_", "-")
                value = getattr(recipe, field)
                raise ValueError(
                    f"{field} must {requirement}, got {quoted(value)} ({flag}, or {field} in a recipe file)"
                )
        return recipe


def _requirements(recipe: Recipe) -> list[tuple[str, bool, str]]:
    """For each check of a resolved recipe: the field, whether its value is valid, and the requirement."""
    uses_alpha = recipe.loss == "vwci"
    passes = recipe.passes
    return [
        *((name, getattr(recipe, name) in names, f"be one of {', '.join(names)}") for name, names in _CHOICES.items()),
        ("image_size", 8 <= recipe.image_size <= 1024, "lie in [8, 1024]"),
        # Its five pooling layers and its fully connected layers require this size.
        ("image_size", recipe.model != "vgg16" or 32 <= recipe.image_size <= 63, "lie in [32, 63] for vgg16"),
        ("classes", recipe.classes is None or recipe.classes >= 2, "be at least 2"),
        ("train_images", recipe.train_images is None or recipe.train_images >= 1, "be at least 1"),
        ("validation", 0 <= recipe.validation < 1, "lie in [0, 1)"),
        ("padding", 0 <= recipe.padding <= recipe.image_size, "lie in [0, image_size]"),
        ("width", 0 < recipe.width <= 16, "lie in (0, 16]"),
        ("noise", recipe.noise is None or 0 <= recipe.noise < 1, "lie in [0, 1)"),
        ("noise", not (uses_alpha and recipe.noise == 0), "be above 0 for vwci, which needs stochastic passes"),
        ("samples", 1 + uses_alpha <= passes <= 1000, f"lie in [{1 + uses_alpha}, 1000] for {recipe.loss}"),
        (
            "gradient_passes",
            recipe.gradient_passes is None or 1 <= recipe.gradient_passes <= passes,
            f"lie in [1, samples] = [1, {passes}]",
        ),
        (
            "strength",
            recipe.strength != "auto" or recipe.loss in TUNED,
            f"be 1 for {recipe.loss}; auto is for {', '.join(TUNED)}",
        ),
        ("strength", recipe.strength == "auto" or _is_positive(recipe.strength), "be auto, or finite and above 0"),
        ("strength", recipe.strength in ("auto", 1) or uses_alpha, f"be auto or 1 for {recipe.loss}"),
        (
            "give_back",
            recipe.give_back is None or (recipe.is_tuned and 0 <= recipe.give_back < recipe.share),
            "be left out without a tuned strength or adafocal, and lie in [0, last_share) with one",
        ),
        ("alpha", recipe.alpha == "example" or uses_alpha, f"be example for {recipe.loss}, which has no alpha"),
        # Stochastic depth splits a compiled network into graphs whose batch norms torch cannot run twice per backward.
        (
            "compile",
            not (recipe.compile and passes > 1 and recipe.model.startswith("resnet")),
            "be false for a ResNet with several stochastic passes; sharing computation between them is faster",
        ),
        *((name, 0 <= getattr(recipe, name) < math.inf, "be finite and at least 0") for name in _NON_NEGATIVE),
        ("penalty", recipe.penalty is None or 0 <= recipe.penalty < math.inf, "be null, or finite and at least 0"),
        ("label_smoothing", 0 <= recipe.label_smoothing <= 1, "lie in [0, 1]"),
        ("last_share", 0 < recipe.share <= 1, "lie in (0, 1]"),
        ("epochs", recipe.epochs >= 1, "be at least 1"),
        ("batch_size", recipe.batch_size >= 1, "be at least 1"),
        ("learning_rate", 0 < recipe.learning_rate < math.inf, "be finite and above 0"),
        ("milestones", _increase(recipe.milestones), "increase within (0, 1)"),
        ("decay", 0 < recipe.decay <= 1, "lie in (0, 1]"),
        ("momentum", 0 <= recipe.momentum < 1, "lie in [0, 1)"),
        ("clip_gradient", recipe.clip_gradient is None or recipe.clip_gradient > 0, "be above 0"),
        ("seed", 0 <= recipe.seed < 2**63, "lie in [0, 2**63)"),
        ("evaluate_every", recipe.evaluate_every >= 1, "be at least 1"),
    ]


_NON_NEGATIVE = ("beta", "gamma", "focus", "weight_decay")
TUNED = ("vwci", "label_smoothing", "ci", "focal")
"""Losses whose strength can be tuned."""
_CHOICES: dict[str, tuple[str, ...]] = {
    "alpha": get_args(AlphaName),
    "loss": get_args(LossName),
    "measure": get_args(MeasureName),
    "memory": get_args(MemoryName),
    "precision": get_args(PrecisionName),
}


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and 0 < value < math.inf


def _increase(milestones: tuple[float, ...]) -> bool:
    return all(earlier < later for earlier, later in pairwise((0, *milestones, 1)))
