from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given, settings, strategies as st

from singleshot.common.loss_names import LossName
from singleshot.training.recipe import AlphaName, MeasureName, MemoryName, PrecisionName, Recipe
from singleshot.training.recipe_file import read_recipe, read_recipe_values, recipe_text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mine.yaml"


VALUES: list[tuple[str, dict[str, Any]]] = [
    ("", {}),
    ("# nothing but a comment\n", {}),
    ("epochs: 3\nmodel: vgg16\n", {"epochs": 3, "model": "vgg16"}),
    ("learning_rate: 1e-3", {"learning_rate": 1e-3}),  # YAML reads this as a string
    ("learning_rate: 1", {"learning_rate": 1.0}),
    ("noise: 0", {"noise": 0.0}),
    ("noise: null\ntrain_images: ~\nstart_from:", {"noise": None, "train_images": None, "start_from": None}),
    ("train_images: 500", {"train_images": 500}),
    (
        "noise: 0.0\nseed: 0\nstart_from: '0017'\ndevice: 'a:1'",
        {"noise": 0.0, "seed": 0, "start_from": "0017", "device": "a:1"},
    ),
    ("milestones: [1e-1, 0.5]", {"milestones": (0.1, 0.5)}),
    ("milestones: []", {"milestones": ()}),
    ("mirror: no\nchannels_last: true", {"mirror": False, "channels_last": True}),
    ("loss: ci\nvariance: hellinger\nepsilon: 0.3", {"loss": "ci", "measure": "hellinger", "label_smoothing": 0.3}),
]


def test_values_have_the_type_of_their_field(path: Path) -> None:
    for text, values in VALUES:
        path.write_text(text)
        found = read_recipe_values(path)
        assert found == values, text
        assert [type(value) for value in found.values()] == [type(value) for value in values.values()], text
        assert all(getattr(replace(Recipe(), **found), name) == value for name, value in values.items())


ERRORS = [
    ("epoch: 3", "unknown recipe field 'epoch'; did you mean 'epochs'?"),
    ("batch-size: 64", "did you mean 'batch_size'?"),
    ("lerning_rate: 0.1", "did you mean 'learning_rate'?"),
    ("xyzzy: 1", "the fields are dataset, image_size,"),
    ("1: 2", "unknown recipe field '1'"),
    ("epochs: 3.5", "epochs must be a whole number, got 3.5"),
    ("epochs: true", "epochs must be a whole number, got True"),
    ("epochs: '3'", "epochs must be a whole number, got '3'"),
    ("epochs: null", "epochs must be a whole number, got None"),
    ("learning_rate: fast", "learning_rate must be a number, got 'fast'"),
    ("learning_rate: true", "learning_rate must be a number, got True"),
    ("learning_rate: [0.1]", "learning_rate must be a number, got [0.1]"),
    ("noise: high", "noise must be a number or null, got 'high'"),
    ("train_images: 1e3", "train_images must be a whole number or null, got '1e3'"),
    ("mirror: 1", "mirror must be true or false, got 1"),
    ("mirror: 'yes'", "mirror must be true or false, got 'yes'"),
    ("model: 18", "model must be text, got 18"),
    ("start_from: 3", "start_from must be text or null, got 3"),
    ("milestones: 0.5", "milestones must be a list of numbers, got 0.5"),
    ("milestones: [0.5, x]", "milestones must be a list of numbers"),
    ("milestones: [0.5, true]", "milestones must be a list of numbers"),
    ("loss: vcwi", "loss must be one of cross_entropy, label_smoothing, ci, entropy_ci, vwci, focal, flsd, "),
    ("loss: vcwi", "brier, got 'vcwi'"),
    ("loss: [ci]", "loss must be one of"),
    ("precision: 16", "precision must be one of float32, bfloat16, float16, got 16"),
    ("epochs: 017", "'017' is an octal number or a time to some programs; write a plain number"),
    ("seed: -01_7", "'-01_7' is an octal number or a time"),
    ("seed: 12:30:45", "'12:30:45' is an octal number or a time"),
    ("learning_rate: 1:30.5", "'1:30.5' is an octal number or a time"),
    ("model: 010", "'010' is an octal number or a time to some programs; write a plain number, or quote text"),
    ("- epochs", "must hold lines such as `epochs: 30`, got a list"),
    ("epochs", "must hold lines such as `epochs: 30`, got a str"),
    ("epochs: [", "cannot be read as YAML"),
    ("epochs: !!python/object/apply:os.system ['true']", "cannot be read as YAML"),
    ("epochs: 2020-13-45", "cannot be read as YAML"),
    ("epochs: !!int ''", "cannot be read as YAML"),
    (f"seed: {'9' * 5000}", "cannot be read as YAML"),
]


def test_errors_name_the_file_and_what_is_expected(path: Path) -> None:
    for text, message in ERRORS:
        path.write_text(text)
        with pytest.raises(ValueError) as refused:  # noqa: PT011
            read_recipe_values(path)
        assert str(refused.value).startswith(str(path)), text
        assert message in str(refused.value)


def test_missing_and_binary_files_are_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such recipe file"):
        read_recipe_values(path)
    with pytest.raises(ValueError, match="cannot be read as YAML"):
        read_recipe_values(tmp_path)  # a folder
    path.write_bytes(b"epochs: 3 # \xff\xfe")
    with pytest.raises(ValueError, match="cannot be read as YAML"):
        read_recipe_values(path)


def test_billion_laughs_file_is_refused_with_a_short_message(path: Path) -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]" for before, name in pairwise("abcdefghi")]
    path.write_text("epochs:\n" + "".join(f"  {line}\n" for line in lines))
    with pytest.raises(ValueError, match="epochs must be a whole number") as refused:
        read_recipe_values(path)
    assert len(str(refused.value)) < 1000


def exactly(values: type) -> st.SearchStrategy[Any]:
    return st.sampled_from(get_args(values))


finite = st.floats(allow_nan=False, allow_infinity=False)
text = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=12)
recipes = st.builds(
    Recipe,
    dataset=text,
    model=text,
    image_size=st.integers(),
    classes=st.none() | st.integers(),
    train_images=st.none() | st.integers(),
    validation=finite,
    padding=st.integers(),
    mirror=st.booleans(),
    width=finite,
    noise=st.none() | finite,
    loss=exactly(LossName),  # type: ignore[arg-type]
    samples=st.none() | st.integers(),
    measure=exactly(MeasureName),  # type: ignore[arg-type]
    differentiate_alpha=st.booleans(),
    strength=finite | st.just("auto"),
    gradient_passes=st.none() | st.integers(),
    give_back=st.none() | finite,
    alpha=exactly(AlphaName),  # type: ignore[arg-type]
    beta=finite,
    penalty=st.none() | finite,
    last_share=finite,
    start_from=st.none() | text,
    epochs=st.integers(),
    milestones=st.lists(finite, max_size=5).map(tuple),
    weight_decay=finite,
    clip_gradient=st.none() | finite,
    seed=st.integers(0, 2**63 - 1),
    memory=exactly(MemoryName),  # type: ignore[arg-type]
    precision=exactly(PrecisionName),  # type: ignore[arg-type]
    compile=st.booleans(),
    device=text,
)


@settings(max_examples=50, deadline=None)
@given(recipes)
def test_a_written_recipe_reads_back_exactly(tmp_path_factory: pytest.TempPathFactory, recipe: Recipe) -> None:
    path = tmp_path_factory.mktemp("recipe") / "recipe.yaml"
    path.write_text(recipe_text(recipe), encoding="utf-8")
    assert read_recipe(path) == recipe


def test_run_recipe_needs_every_field(path: Path) -> None:
    plain = yaml.safe_load(recipe_text(Recipe(epochs=7)))
    assert list(plain) == [field.name for field in fields(Recipe)]
    del plain["seed"], plain["focus"]
    path.write_text(yaml.safe_dump(plain))
    with pytest.raises(ValueError, match="is not the complete recipe of a run: it lacks focus, seed"):
        read_recipe(path)


def test_a_recipe_of_the_first_version_has_the_settings_it_was_trained_with(path: Path) -> None:
    plain = yaml.safe_load(recipe_text(Recipe(epochs=7)))
    for name in ("gradient_passes", "strength", "give_back", "alpha", "track", "classes", "penalty"):
        del plain[name]
    path.write_text(yaml.safe_dump(plain))
    recipe = read_recipe(path)
    assert (recipe.gradient_passes, recipe.strength, recipe.give_back, recipe.alpha) == (None, 1.0, None, "example")
    assert recipe.penalty is None


def test_duplicate_keys_are_refused(path: Path) -> None:
    for text, name in [
        ("epochs: 1\nwidth: 0.5\nepochs: 2\n", "epochs"),
        ("measure: hellinger\nvariance: hellinger", "measure"),
    ]:
        path.write_text(text)
        with pytest.raises(ValueError, match=f"{name} is given more than once"):
            read_recipe_values(path)
