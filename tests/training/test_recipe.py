from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from singleshot.models import list_models
from singleshot.training.recipe import Recipe
from singleshot.training.recipe_file import PresetName, preset

NAN, INFINITY = float("nan"), float("inf")
BAD: list[tuple[str, list[Any]]] = [
    ("image_size", [7, 1025, -1]),
    ("train_images", [0, -5]),
    ("validation", [-0.1, 1.0, NAN]),
    ("padding", [-1, 33]),
    ("width", [0.0, -1.0, 16.1, NAN]),
    ("noise", [-0.1, 1.0, NAN, 0.0]),  # vwci weighs by the noise: 0 would leave nothing to weigh by
    ("loss", ["vwcy", "", None]),
    ("samples", [0, 1, 1001]),
    ("measure", ["battacharyya"]),
    ("beta", [-1e-9, INFINITY, NAN]),
    ("gamma", [-1e-9, INFINITY, NAN]),
    ("focus", [-1e-9, INFINITY, NAN]),
    ("label_smoothing", [-0.1, 1.1, NAN]),
    ("last_share", [0.0, 1.1, NAN]),
    ("epochs", [0, -1]),
    ("batch_size", [0, -1]),
    ("learning_rate", [0.0, -0.1, INFINITY, NAN]),
    ("milestones", [(0.0,), (1.0,), (0.4, 0.2), (0.3, 0.3), (NAN,)]),
    ("decay", [0.0, 1.5, NAN]),
    ("momentum", [-0.1, 1.0, NAN]),
    ("weight_decay", [-1e-9, INFINITY, NAN]),
    ("clip_gradient", [0.0, -1.0, NAN]),
    ("seed", [-1, 2**63]),
    ("memory", ["small"]),
    ("precision", ["float64"]),
    ("compile", [True]),  # of a ResNet with several passes
    ("evaluate_every", [0]),
]
GOOD: dict[str, list[Any]] = {
    "image_size": [8, 1024],
    "train_images": [None, 1],
    "validation": [0, 0.99],
    "padding": [0, 32],
    "width": [0.001, 16],
    "noise": [None, 0.01, 0.99],
    "samples": [None, 2, 1000],
    "beta": [0, 1e9],
    "label_smoothing": [0, 1],
    "last_share": [1e-6, 1],
    "epochs": [1],
    "batch_size": [1],
    "milestones": [(), (0.5,), (0.1, 0.9)],
    "decay": [1],
    "momentum": [0],
    "clip_gradient": [None, 0.1],
    "seed": [0, 2**63 - 1],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in BAD for value in values])
def test_a_bad_value_is_refused_by_field_and_flag(field: str, value: Any) -> None:
    recipe = replace(Recipe(), **{field: value})
    with pytest.raises(ValueError, match=f"^{field} must .*, got ") as refused:
        recipe.resolved()
    flag = "--" + field.replace("_", "-")
    assert str(refused.value).endswith(f"got {value!r} ({flag}, or {field} in a recipe file)")


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in GOOD.items() for value in values])
def test_the_ends_of_each_range_belong_to_it(field: str, value: Any) -> None:
    assert value is None or getattr(replace(Recipe(), **{field: value}).resolved(), field) == value


@pytest.mark.parametrize("loss", ["cross_entropy", "label_smoothing", "ci", "entropy_ci", "focal", "vwci"])
def test_passes_are_five_for_vwci_and_one_for_the_others_unless_told(loss: Any) -> None:
    recipe = Recipe(loss=loss)
    assert recipe.samples is None
    assert recipe.resolved().samples == recipe.passes == (5 if loss == "vwci" else 1)
    assert replace(recipe, samples=3).resolved().samples == 3
    assert recipe.resolved().resolved() == recipe.resolved()


def test_one_pass_and_no_noise_are_fine_where_nothing_is_weighed_by_it() -> None:
    resolved = Recipe(loss="ci", samples=1, noise=0.0).resolved()
    assert (resolved.samples, resolved.noise) == (1, 0.0)


def test_vgg_takes_no_image_that_its_layers_do_not_fit() -> None:
    for size, fits in [(31, False), (32, True), (63, True), (64, False)]:
        recipe = Recipe(model="vgg16", image_size=size, padding=4)
        if fits:
            assert recipe.resolved().image_size == size
        else:
            with pytest.raises(ValueError, match=r"^image_size must lie in \[32, 63\] for vgg16, got"):
                recipe.resolved()


@pytest.mark.parametrize("model", list_models())
def test_the_paper_preset_is_what_the_specification_says(model: str) -> None:
    recipe = preset("paper", model=model, dataset="cifar100").resolved()
    assert (recipe.model, recipe.dataset, recipe.width, recipe.noise) == (model, "cifar100", 1.0, None)
    assert (recipe.epochs, recipe.batch_size, recipe.samples) == (300, 256 if model == "vgg16" else 64, 5)
    assert (recipe.learning_rate, recipe.decay) == (0.1, 0.2)
    assert (recipe.momentum, recipe.weight_decay) == (0.9, 5e-4)
    assert (recipe.padding, recipe.mirror, recipe.image_size) == (4, True, 32)
    assert [share * 300 for share in recipe.milestones] == pytest.approx([60, 120, 160, 200, 250])
    assert (recipe.train_images, recipe.validation) == (None, 0.0)


@pytest.mark.parametrize("model", list_models())
def test_a_small_preset_is_smaller_and_holds_images_out(model: str) -> None:
    recipe = preset("small", model=model, dataset="tiny_imagenet").resolved()
    assert recipe.width < 1
    assert recipe.epochs < 300
    assert recipe.validation == 0.1


@pytest.mark.parametrize(("dataset", "mirror"), [("digits", False), ("mnist", False), ("fashion_mnist", True)])
def test_what_is_read_one_way_is_not_mirrored(dataset: str, mirror: bool) -> None:
    for name in get_args(PresetName):
        assert preset(name, model="resnet18", dataset=dataset).mirror is mirror
