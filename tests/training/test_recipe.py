from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from singleshot.common.loss_names import LossName
from singleshot.models import list_models
from singleshot.training.recipe import Recipe
from singleshot.training.recipe_file import PresetName, preset

NAN, INFINITY = float("nan"), float("inf")
BAD: dict[str, list[Any]] = {
    "image_size": [7, 1025, -1],
    "classes": [1, 0],
    "train_images": [0, -5],
    "validation": [-0.1, 1.0, NAN],
    "padding": [-1, 33],
    "width": [0.0, -1.0, 16.1, NAN],
    "noise": [-0.1, 1.0, NAN, 0.0],  # vwci needs passes that differ
    "loss": ["vwcy", "", None],
    "samples": [0, 1, 1001],
    "measure": ["battacharyya"],
    "beta": [-1e-9, INFINITY, NAN],
    "gamma": [-1e-9, INFINITY, NAN],
    "focus": [-1e-9, INFINITY, NAN],
    "penalty": [-1e-9, INFINITY, NAN],
    "label_smoothing": [-0.1, 1.1, NAN],
    "last_share": [0.0, 1.1, NAN],
    "gradient_passes": [0, 6],
    "strength": [0.0, -1.0, INFINITY, NAN, "strong"],
    "give_back": [0.2],  # only with a strength that is tuned
    "alpha": ["shuffled"],
    "epochs": [0, -1],
    "batch_size": [0, -1],
    "learning_rate": [0.0, -0.1, INFINITY, NAN],
    "milestones": [(0.0,), (1.0,), (0.4, 0.2), (0.3, 0.3), (NAN,)],
    "decay": [0.0, 1.5, NAN],
    "momentum": [-0.1, 1.0, NAN],
    "weight_decay": [-1e-9, INFINITY, NAN],
    "clip_gradient": [0.0, -1.0, NAN],
    "seed": [-1, 2**63],
    "memory": ["small"],
    "precision": ["float64"],
    "compile": [True],  # of a ResNet with several passes
    "evaluate_every": [0],
}
GOOD: dict[str, list[Any]] = {
    "image_size": [8, 1024],
    "train_images": [None, 1],
    "validation": [0, 0.99],
    "padding": [0, 32],
    "width": [0.001, 16],
    "noise": [None, 0.01, 0.99],
    "samples": [2, 1000],
    "beta": [0, 1e9],
    "penalty": [None, 0, 1e9],
    "label_smoothing": [0, 1],
    "last_share": [1e-6, 1],
    "gradient_passes": [None, 1, 5],
    "strength": [0.1, 2, "auto"],
    "alpha": ["example", "permuted", "batch_mean", "scaled"],
    "epochs": [1],
    "batch_size": [1],
    "milestones": [(), (0.5,), (0.1, 0.9)],
    "decay": [1],
    "momentum": [0],
    "clip_gradient": [None, 0.1],
    "seed": [0, 2**63 - 1],
}


@pytest.mark.parametrize("field", BAD)
def test_bad_value_is_refused_by_field_and_flag(field: str) -> None:
    flag = "--" + field.replace("_", "-")
    for value in BAD[field]:
        with pytest.raises(ValueError, match=f"^{field} must .*, got ") as refused:
            replace(Recipe(), **{field: value}).resolved()
        assert str(refused.value).endswith(f"got {value!r} ({flag}, or {field} in a recipe file)")


def test_messages_read_as_sentences() -> None:
    for recipe, message in [
        (Recipe(epochs=0), "epochs must be at least 1, got 0 (--epochs, or epochs in a recipe file)"),
        (Recipe(samples=1), "samples must lie in [2, 1000] for vwci, got 1 (--samples, or samples in a recipe file)"),
    ]:
        with pytest.raises(ValueError) as refused:  # noqa: PT011
            recipe.resolved()
        assert str(refused.value) == message


def test_ends_of_each_range_are_valid() -> None:
    for field, values in GOOD.items():
        for value in values:
            assert getattr(replace(Recipe(), **{field: value}).resolved(), field) == value, field


def test_passes_are_five_for_vwci_and_one_for_other_losses() -> None:
    for loss in get_args(LossName):
        recipe = Recipe(loss=loss)
        assert recipe.samples is None
        assert recipe.resolved().samples == recipe.passes == (5 if loss == "vwci" else 1)
        assert replace(recipe, samples=3).resolved().samples == 3
        assert recipe.resolved().resolved() == recipe.resolved()


def test_other_losses_need_neither_noise_nor_several_passes() -> None:
    resolved = Recipe(loss="ci", samples=1, noise=0.0).resolved()
    assert (resolved.samples, resolved.noise) == (1, 0.0)


def test_vgg_accepts_only_image_sizes_that_fit_its_layers() -> None:
    for size in (32, 63):
        assert Recipe(model="vgg16", image_size=size).resolved().image_size == size
    for size in (31, 64):
        with pytest.raises(ValueError, match=r"^image_size must lie in \[32, 63\] for vgg16, got"):
            Recipe(model="vgg16", image_size=size).resolved()


def test_presets() -> None:
    for model in list_models():
        paper = preset("paper", model=model, dataset="cifar100").resolved()
        assert (paper.model, paper.dataset, paper.width, paper.noise) == (model, "cifar100", 1.0, None)
        assert (paper.epochs, paper.batch_size, paper.samples) == (300, 256 if model == "vgg16" else 64, 5)
        assert (paper.learning_rate, paper.decay) == (0.1, 0.2)
        assert (paper.momentum, paper.weight_decay) == (0.9, 5e-4)
        assert (paper.padding, paper.mirror, paper.image_size) == (4, True, 32)
        assert [share * 300 for share in paper.milestones] == pytest.approx([60, 120, 160, 200, 250])
        assert (paper.train_images, paper.validation) == (None, 0.0)
        assert (paper.strength, paper.gradient_passes, paper.last_share) == (1, None, 1)
        small = preset("small", model=model, dataset="tiny_imagenet").resolved()
        assert small.width < 1
        assert small.epochs < 300
        assert (small.validation, small.strength) == (0.1, "auto")


def test_vwci_tunes_its_strength_if_images_are_held_out() -> None:
    held_out = Recipe(validation=0.1)
    tuned = held_out.resolved()
    assert (tuned.strength, tuned.gradient_passes, tuned.last_share, tuned.give_back) == ("auto", 1, 0.5, 0.2)
    assert tuned.resolved() == tuned
    assert replace(held_out, gradient_passes=3).resolved().gradient_passes == 3
    assert Recipe(loss="label_smoothing", strength="auto", samples=5).resolved().gradient_passes is None
    for fixed in (
        Recipe(),  # nothing is held out
        replace(held_out, strength=1.0),
        replace(held_out, last_share=0.2),  # VWCI*, in one run or from a trained one
        replace(held_out, start_from="runs/base"),
        *(replace(held_out, loss=loss) for loss in get_args(LossName) if loss != "vwci"),
    ):
        resolved = fixed.resolved()
        assert (resolved.strength, resolved.gradient_passes) == (1.0, None)
        assert resolved.is_tuned == (fixed.loss == "adafocal")
    with pytest.raises(ValueError, match=r"^gradient_passes must lie in \[1, samples\]"):
        replace(held_out, gradient_passes=0).resolved()


def test_digits_are_not_mirrored() -> None:
    for dataset, mirror in [("digits", False), ("mnist", False), ("fashion_mnist", True)]:
        for name in get_args(PresetName):
            assert preset(name, model="resnet18", dataset=dataset).mirror is mirror


def test_a_tuned_strength_holds_out_images_and_starts_in_the_middle() -> None:
    recipe = Recipe(strength="auto").resolved()
    assert (recipe.validation, recipe.last_share, recipe.give_back) == (0.1, 0.5, 0.2)
    assert not recipe.holds_out
    chosen = Recipe(strength="auto", validation=0.3, last_share=1.0, give_back=0.0).resolved()
    assert (chosen.validation, chosen.last_share, chosen.give_back) == (0.3, 1.0, 0.0)
    assert chosen.holds_out
    for options, field in (
        ({"loss": "cross_entropy"}, "strength"),
        ({"loss": "entropy_ci"}, "strength"),
        ({"give_back": 0.5}, "give_back"),
        ({"give_back": NAN}, "give_back"),
    ):
        with pytest.raises(ValueError, match=f"^{field} must"):
            replace(Recipe(strength="auto"), **options).resolved()
    with pytest.raises(ValueError, match=r"^strength must be auto or 1 for label_smoothing"):
        Recipe(loss="label_smoothing", strength=2.0).resolved()
    with pytest.raises(ValueError, match=r"^alpha must be example for focal"):
        Recipe(loss="focal", alpha="permuted").resolved()


def test_adafocal_holds_out_images_from_the_first_step_to_the_last() -> None:
    recipe = Recipe(loss="adafocal").resolved()
    assert recipe.is_tuned
    assert (recipe.validation, recipe.last_share, recipe.give_back) == (0.1, 1.0, 0.0)
    assert recipe.holds_out
    assert Recipe(loss="adafocal", validation=0.3).resolved().validation == 0.3
    with pytest.raises(ValueError, match=r"^strength must be 1 for adafocal; auto is for vwci"):
        Recipe(loss="adafocal", strength="auto").resolved()
