"""The regimes of the evidence: data, networks and the length of their training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from singleshot.paper.methods import CI, TEMPERATURE_SCALING, base_recipe
from singleshot.paper.published import CI_MEAN, CI_ORACLE
from singleshot.training.recipe import Recipe

EPOCHS = (30, 60, 90, 150, 300)
"""Candidates for the length of a training. benchmarks/convergence.py selects one, with the baseline alone."""
UNSEEN = 5000
"""Training images that no run uses, where a regime has more images than its runs need."""

ALL_ROWS = (
    *("baseline", "ts_case1", "ts_case2", CI_MEAN, CI_ORACLE, "smoothing_0.05", "smoothing_0.1", "smoothing", "focal"),
    *("passes", "passes_one_gradient", "vwci", "vwci_one_gradient", "vwci_hellinger", "vwci_hellinger_one_gradient"),
    *("vwci_total_variation", "vwci_total_variation_one_gradient"),
    *("vwci_permuted", "vwci_batch_mean", "vwci_scaled"),  # the same passes, other weights
    *("auto_smoothing", "auto_smoothing_kept", "auto_vwci", "auto_vwci_kept", "vwci_star", "vwci_star_fast"),
)
MAIN_ROWS = (
    *("baseline", "ts_case1", "ts_case2", "smoothing_0.05", "smoothing_0.1", "passes", "vwci", "vwci_one_gradient"),
    *("vwci_total_variation", "vwci_total_variation_one_gradient", "auto_smoothing", "auto_vwci"),
)
# For the two regimes in which a run with VWCI takes about 40 minutes.
AUGMENTED_ROWS = ("baseline", "ts_case1", "smoothing_0.1", "passes", "vwci", "auto_vwci")
FEW_ROWS = ("baseline", "ts_case1", "smoothing_0.1", "vwci")


@dataclass(frozen=True)
class Regime:
    """Data, a network and its training, and the rows of its table."""

    recipe: Recipe
    rows: tuple[str, ...]


def _hard(model: str, epochs: int) -> Recipe:
    """5,000 images of 100 classes."""
    return replace(base_recipe("small", dataset="cifar100", model=model), epochs=epochs)


def _ten_classes(epochs: int, *, augmented: bool) -> Recipe:
    """All 5,000 images of ten classes of CIFAR-100, at half their size: at full size a run takes four times as long."""
    recipe = replace(_hard("resnet18", epochs), classes=10, train_images=None)
    return replace(recipe, padding=2, mirror=True) if augmented else recipe


def _fashion(epochs: int) -> Recipe:
    """The images of Fashion-MNIST at half their size, but for those that no run uses; an epoch takes four seconds."""
    recipe = base_recipe("small", dataset="fashion_mnist", model="small_cnn")
    return replace(
        recipe, image_size=14, train_images=60_000 - UNSEEN, width=0.5, batch_size=256, learning_rate=0.1, epochs=epochs
    )


def _more_images(epochs: int) -> Recipe:
    """CIFAR-100 with augmentation, but for the images that no run uses; too many to be memorised in these epochs."""
    return replace(_hard("resnet18", epochs), train_images=50_000 - UNSEEN, padding=2, mirror=True)


REGIMES = {
    name: Regime(replace(recipe, track=True, evaluate_every=max(1, recipe.epochs // 10)), rows)
    for name, recipe, rows in (
        ("hard-resnet18", _hard("resnet18", 60), ALL_ROWS),
        ("hard-vgg16", _hard("vgg16", 60), MAIN_ROWS),
        ("ten-classes", _ten_classes(30, augmented=False), ALL_ROWS),
        ("ten-classes-augmented", _ten_classes(300, augmented=True), AUGMENTED_ROWS),
        ("fashion-mnist", _fashion(60), MAIN_ROWS),
        ("more-images", _more_images(30), FEW_ROWS),
    )
}
"""By name. The rule of benchmarks/convergence.py selects the epochs, except those of more-images, whose search would
take hours; results/convergence.json has the search."""


def trained_methods(rows: Sequence[str]) -> tuple[str, ...]:
    """Return the methods whose runs the rows of a table need, each once."""
    needed = {**{row: (method,) for row, method in TEMPERATURE_SCALING.items()}, CI_MEAN: CI, CI_ORACLE: CI}
    return tuple(dict.fromkeys(method for row in rows for method in needed.get(row, (row,))))
