"""The regimes of the evidence: data and networks that are trained until they have memorised their images."""

from __future__ import annotations

from dataclasses import replace

from singleshot.paper.methods import CI, base_recipe
from singleshot.training.recipe import Recipe

EPOCHS = (30, 60, 90, 150, 300)
"""Candidates for the length of a training. benchmarks/convergence.py selects one, with the baseline alone."""


def _hard(model: str, epochs: int) -> Recipe:
    """5,000 images of 100 classes."""
    return replace(base_recipe("small", dataset="cifar100", model=model), epochs=epochs, track=True)


def _ten_classes(epochs: int, *, augmented: bool) -> Recipe:
    """All 5,000 images of ten classes of CIFAR-100, at their full size."""
    recipe = replace(_hard("resnet18", epochs), image_size=32, classes=10, train_images=None)
    return replace(recipe, padding=4, mirror=True) if augmented else recipe


def _evaluated(recipe: Recipe) -> Recipe:
    """Ten points of the curve of a training."""
    return replace(recipe, evaluate_every=max(1, recipe.epochs // 10))


REGIMES = {
    name: _evaluated(recipe)
    for name, recipe in {
        "hard-resnet18": _hard("resnet18", 60),
        "hard-vgg16": _hard("vgg16", 60),
        "ten-classes": _ten_classes(60, augmented=False),
        "ten-classes-augmented": _ten_classes(150, augmented=True),
    }.items()
}
"""The base recipe of each regime. Only the epochs of hard-resnet18 were selected by the rule so far."""

EVIDENCE = (
    "baseline",
    "ts_case1",
    "ts_case2",
    "vwci",
    "vwci_one_gradient",
    "vwci_total_variation",
    "vwci_total_variation_one_gradient",
    "auto_smoothing",
    "auto_vwci",
    "passes",
    "passes_one_gradient",
    "vwci_permuted",
    "vwci_batch_mean",
    "smoothing_0.05",
    "smoothing_0.1",
    "auto_smoothing_kept",
    "auto_vwci_kept",
    "vwci_hellinger",
    "focal",
    *CI,
    "smoothing",
    "vwci_star",
)
"""The rows, those that decide most first."""
