from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from singleshot.grid.job import Job, job_of
from singleshot.paper.methods import METHODS, base_recipe, method_behind, method_of
from singleshot.training.recipe import Recipe

BASE = base_recipe("small", dataset="digits", model="resnet18")


@pytest.mark.parametrize("method", METHODS)
def test_a_job_survives_json_with_its_key(method: str) -> None:
    job = job_of(BASE, method, seed=2)
    again = Job.from_dict(json.loads(json.dumps(job.to_dict())), source="here")
    assert again == job
    assert again.key == job.key


def test_every_method_has_a_key_of_its_own_but_for_the_default_number_of_passes() -> None:
    keys: dict[str, list[str]] = {}
    for name in METHODS:
        keys.setdefault(job_of(BASE, name, seed=0).key, []).append(name)
    assert [names for names in keys.values() if len(names) > 1] == [["vwci", "vwci_T5"]]


CHANGED: dict[str, Any] = {
    "dataset": "mnist", "image_size": 24, "train_images": 99, "validation": 0.2, "padding": 1, "mirror": True,
    "model": "resnet34", "width": 0.3, "noise": 0.4, "loss": "focal", "samples": 7, "measure": "hellinger",
    "differentiate_alpha": True, "beta": 0.7, "gamma": 0.7, "label_smoothing": 0.7, "focus": 0.7, "last_share": 0.7,
    "epochs": 7, "batch_size": 7, "learning_rate": 0.7, "milestones": (0.7,), "decay": 0.7, "momentum": 0.7,
    "weight_decay": 0.7, "clip_gradient": 0.7, "seed": 7, "precision": "bfloat16", "evaluate_every": 7,
}  # fmt: skip
OF_THE_PLACE: dict[str, Any] = {
    "device": "cpu",
    "memory": "low",
    "compile": True,
    "channels_last": False,
    "start_from": "runs/elsewhere",
}


def test_the_key_follows_everything_that_decides_the_result_and_nothing_of_the_place() -> None:
    assert set(CHANGED) | set(OF_THE_PLACE) == {field.name for field in fields(Recipe)}
    recipe = BASE.resolved()
    keys = {Job(replace(recipe, **{name: value})).key for name, value in CHANGED.items()}
    assert len({*keys, Job(recipe).key}) == len(CHANGED) + 1
    for name, value in OF_THE_PLACE.items():
        assert Job(replace(recipe, **{name: value})).key == Job(recipe).key


def test_a_field_that_recipes_gain_later_changes_no_key() -> None:
    job = job_of(BASE, "vwci_star", seed=1)
    content = job.to_dict()
    for recipe in (content["recipe"], content["start"]):
        assert recipe.pop("focus") == Recipe().focus  # as if written before there was this field
    assert Job.from_dict(content, source="here").key == job.key


def test_the_keys_of_stored_runs_stay_what_they_are() -> None:
    """Of these runs results/ has files: a default or a method that changes must not rename or reuse them."""
    base = base_recipe("small", dataset="cifar100", model="resnet18")
    assert job_of(base, "baseline", seed=0).key == "67ef63d5214a0b2d"
    assert job_of(base, "vwci", seed=0).key == "c6c6d1b590dfe038"
    assert job_of(base, "vwci_total_variation", seed=0).key == "f9dac7a4d9dd53b9"


def test_a_start_is_part_of_the_key_and_is_the_first_run() -> None:
    star, baseline = job_of(BASE, "vwci_star", seed=1), job_of(BASE, "baseline", seed=1)
    assert star.first == baseline
    assert star.key != Job(star.recipe).key
    assert (star.recipe.last_share, star.recipe.start_from) == (0.2, None)
    assert baseline.first is None


@pytest.mark.parametrize("method", [name for name in METHODS if name != "vwci_T5"])
def test_the_method_behind_a_recipe_is_found(method: str) -> None:
    job = job_of(BASE, method, seed=0)
    assert method_behind(job.recipe, starts_from_another=job.start is not None).name == method
    assert METHODS[method].title in job.title


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "needs its recipe and its start"),
        ({"recipe": 3, "start": None}, "a recipe must be an object, got a int"),
        ({**job_of(BASE, "vwci", 0).to_dict(), "start": []}, "a recipe must be an object, got a list"),
    ],
)
def test_what_is_no_job_is_refused_by_name(content: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^there.json: .*{message}"):
        Job.from_dict(content, source="there.json")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("epochs", "ten", "epochs must be a whole number"),
        ("loss", "magic", "loss must be one of"),
        ("extra", 1, "extra"),
    ],
)
def test_a_recipe_with_a_wrong_value_is_refused(field: str, value: object, message: str) -> None:
    content = job_of(BASE, "baseline", 0).to_dict()
    content["recipe"][field] = value
    with pytest.raises(ValueError, match=message):
        Job.from_dict(content, source="there.json")


def test_an_unknown_method_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="method='ci_2' is unknown; choose one of baseline, ci_1, ci_0"):
        method_of("ci_2")
    with pytest.raises(ValueError, match="no method has a recipe with loss 'entropy_ci'"):
        method_behind(Recipe(loss="entropy_ci").resolved(), starts_from_another=False)
