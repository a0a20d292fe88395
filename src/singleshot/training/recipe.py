"""Everything that decides what a training run gives, in one place. Nothing here imports torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, get_args

LossName = Literal["cross_entropy", "label_smoothing", "ci", "entropy_ci", "focal", "vwci"]
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
PrecisionName = Literal["float32", "bfloat16", "float16"]


RENAMED = {"variance": "measure", "epsilon": "label_smoothing"}
"""Field names of 0.1 and what they are called now: recipes and results that were stored then are still read."""


@dataclass(frozen=True)
class Recipe:
    """A training run from its seed: the same recipe gives the same weights."""

    # Data
    dataset: str = "cifar100"  # a name that `singleshot data list` knows, or a folder of images by class
    image_size: int = 32  # images are brought to this height and width
    train_images: int | None = None  # use at most this many, all classes in proportion; None: all there are
    validation: float = 0.0  # share of these images that is held out to pick the best checkpoint on
    padding: int = 4  # pixels of black around an image before a random crop; 0: no crop
    mirror: bool = True  # mirror half of the images left to right

    # Network
    model: str = "resnet18"  # a name of singleshot.list_models()
    width: float = 1.0  # multiplies the channels of every layer
    noise: float | None = None  # share dropped by dropout or stochastic depth; None: the paper's for this network

    # Loss
    loss: LossName = "vwci"  # what is minimized
    samples: int | None = None  # stochastic passes per step; None: 5 for vwci, 1 for the others
    measure: MeasureName = "bhattacharyya"  # vwci: how the disagreement of the passes becomes its weight
    differentiate_alpha: bool = False  # vwci: let the gradient flow through the weight as well
    beta: float = 0.1  # ci: strength of the pull toward uniform
    gamma: float = 0.1  # entropy_ci: strength of the pull toward high entropy
    label_smoothing: float = 0.1  # label_smoothing: share of the target that is uniform
    focus: float = 3.0  # focal: its exponent; the larger, the less an example counts that is right already
    last_share: float | None = None  # use the loss in this last share of the steps, cross-entropy before; None: in all
    start_from: str | None = None  # a trained run whose weights to take; only the last share, 0.2 unless said, is run

    # Optimization: SGD, the learning rate falling in steps
    epochs: int = 300  # passes over the training images; each leaves out what does not fill a batch
    batch_size: int = 64  # images per step, over all processes
    learning_rate: float = 0.1  # at the start
    milestones: tuple[float, ...] = (0.2, 0.4, 8 / 15, 2 / 3, 5 / 6)  # shares of the run after which the rate falls
    decay: float = 0.2  # what the rate is multiplied with at a milestone
    momentum: float = 0.9  # of SGD
    weight_decay: float = 5e-4  # of SGD, on every parameter
    clip_gradient: float | None = None  # scale gradients down to this norm; None: never

    # Execution: changes rounding and speed, not what is computed
    seed: int = 0  # of the weights, the order, the augmentation and the noise
    memory: MemoryName = "normal"  # low: the activations of one pass, for more time
    precision: PrecisionName = "float32"  # of the forward pass; weights stay float32
    channels_last: bool = True  # the memory layout convolutions are fastest with
    compile: bool = False  # compile the network; its passes then run one after another, sharing nothing
    device: str = "auto"  # cpu, cuda, cuda:1, mps; auto: the best there is
    evaluate_every: int = 1  # epochs between two looks at unseen images; the last epoch is always looked at

    def resolved(self) -> Recipe:
        """The recipe with nothing left open that decides the result, or an error that says which value is wrong."""
        several = 5 if self.loss == "vwci" else 1
        share = 1.0 if self.start_from is None else 0.2
        recipe = replace(
            self,
            samples=several if self.samples is None else self.samples,
            last_share=share if self.last_share is None else self.last_share,
        )
        for demand, holds in _demands(recipe):
            if not holds:
                field = demand.split()[0]
                flag = "--" + field.replace("_", "-")
                raise ValueError(f"{demand}, got {getattr(recipe, field)!r} ({flag}, or {field} in a recipe file)")
        return recipe

    @property
    def passes(self) -> int:
        """Stochastic passes per step of the loss."""
        resolved = self.resolved().samples
        assert resolved is not None
        return resolved

    @property
    def share(self) -> float:
        """The last share of the steps, in which the loss is used."""
        resolved = self.resolved().last_share
        assert resolved is not None
        return resolved


def _demands(recipe: Recipe) -> list[tuple[str, bool]]:
    """What must hold of a resolved recipe; each demand begins with the name of its field."""
    several = recipe.loss == "vwci"
    samples = recipe.samples or 0
    return [
        *_choices(recipe),
        ("image_size must lie in [8, 1024]", 8 <= recipe.image_size <= 1024),
        # Its five halvings and its fully connected layers fit no other size.
        ("image_size must lie in [32, 63] for vgg16", recipe.model != "vgg16" or 32 <= recipe.image_size <= 63),
        ("train_images must be at least 1", recipe.train_images is None or recipe.train_images >= 1),
        ("validation must lie in [0, 1)", 0 <= recipe.validation < 1),
        ("padding must lie in [0, image_size]", 0 <= recipe.padding <= recipe.image_size),
        ("width must lie in (0, 16]", 0 < recipe.width <= 16),
        ("noise must lie in [0, 1)", recipe.noise is None or 0 <= recipe.noise < 1),
        ("noise must be above 0 for vwci, which weighs by it", not (several and recipe.noise == 0)),
        (f"samples must lie in [{1 + several}, 1000] for {recipe.loss}", 1 + several <= samples <= 1000),
        # Their coins cut a compiled network into pieces whose batch norms torch cannot run twice before a backward.
        (
            "compile must be left out for ResNets with several passes, which sharing makes cheaper",
            not (recipe.compile and samples > 1 and recipe.model.startswith("resnet")),
        ),
        ("beta must be finite and at least 0", 0 <= recipe.beta < float("inf")),
        ("gamma must be finite and at least 0", 0 <= recipe.gamma < float("inf")),
        ("focus must be finite and at least 0", 0 <= recipe.focus < float("inf")),
        ("label_smoothing must lie in [0, 1]", 0 <= recipe.label_smoothing <= 1),
        ("last_share must lie in (0, 1]", 0 < (recipe.last_share or 0) <= 1),
        ("epochs must be at least 1", recipe.epochs >= 1),
        ("batch_size must be at least 1", recipe.batch_size >= 1),
        ("learning_rate must be finite and above 0", 0 < recipe.learning_rate < float("inf")),
        ("milestones must rise within (0, 1)", _rise(recipe.milestones)),
        ("decay must lie in (0, 1]", 0 < recipe.decay <= 1),
        ("momentum must lie in [0, 1)", 0 <= recipe.momentum < 1),
        ("weight_decay must be finite and at least 0", 0 <= recipe.weight_decay < float("inf")),
        ("clip_gradient must be above 0", recipe.clip_gradient is None or recipe.clip_gradient > 0),
        ("seed must lie in [0, 2**63)", 0 <= recipe.seed < 2**63),
        ("evaluate_every must be at least 1", recipe.evaluate_every >= 1),
    ]


def _choices(recipe: Recipe) -> list[tuple[str, bool]]:
    """The command line and recipe files know these names by their types; a recipe made in Python may hold any."""
    known = {"loss": LossName, "measure": MeasureName, "memory": MemoryName, "precision": PrecisionName}
    return [
        (f"{field} must be one of {', '.join(get_args(names))}", getattr(recipe, field) in get_args(names))
        for field, names in known.items()
    ]


def _rise(milestones: tuple[float, ...]) -> bool:
    inside = all(0 < milestone < 1 for milestone in milestones)
    return inside and all(earlier < later for earlier, later in pairwise(milestones))
