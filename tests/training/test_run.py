from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from singleshot.data import load_dataset
from singleshot.training.recipe import Recipe
from singleshot.training.run import CHECKPOINTS, FACTS, RECIPE, Facts, Run, recipe_differences

TINY = Recipe(dataset="digits", model="resnet18", width=0.03125, image_size=16, mirror=False).resolved()
FACTS_OF_DIGITS = Facts(tuple("0123456789"), 1, (0.3,), (0.35,), (898, 899), {"torch": "2.13.0"})


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run that has been put down, without a checkpoint."""
    created = Run(tmp_path / "a", TINY, FACTS_OF_DIGITS)
    created.create()
    return created


def save(run: Run, step: int, best: dict[str, Any] | None = None, *, seed: int = 0) -> torch.nn.Module:
    """A checkpoint of freshly drawn weights."""
    torch.manual_seed(seed)
    model = run.new_model()
    keep = best.get("step") if best else None
    state = {"recipe": run.recipe_hash(), "step": step, "best": best}
    run.checkpoints.save(model, torch.optim.SGD(model.parameters()), state, keep=keep)
    return model


def test_what_was_put_down_is_found_again(run: Run) -> None:
    assert Run.open(run.folder) == run
    assert Run.open(str(run.folder)) == run


def test_facts_of_a_data_set() -> None:
    digits = load_dataset("digits", image_size=16)
    facts = Facts.of(digits, {})
    assert (facts.class_names, facts.channels) == (tuple("0123456789"), 1)
    assert (facts.mean, facts.std) == (digits.mean, digits.std)
    assert Facts.from_dict(json.loads(json.dumps(facts.to_dict()))) == facts


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no run: there is no run.json; `singleshot train --output"):
        Run.open(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "singleshot.run/2"},
        {"class_names": 3},
        {"channels": "three"},
        {"channels": 3},  # while mean and std are of one channel
        {"mean": [None]},
        {"std": [0.1, 0.2]},
        {"environment": 1},
    ],
)
def test_damaged_facts_are_refused_by_name(change: dict[str, Any], run: Run) -> None:
    path = run.folder / FACTS
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ValueError, match=r"run\.json is damaged \("):
        Run.open(run.folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", "[" * 100_000])
def test_facts_that_are_no_facts_at_all_are_refused_by_name(text: str, run: Run) -> None:
    (run.folder / FACTS).write_text(text)
    with pytest.raises(ValueError, match=r"run\.json is damaged \("):
        Run.open(run.folder)


def test_a_run_whose_recipe_is_gone_or_incomplete_is_refused(run: Run) -> None:
    (run.folder / RECIPE).write_text("epochs: 3")
    with pytest.raises(ValueError, match=r"recipe\.yaml is not the recipe of a run: it lacks dataset"):
        Run.open(run.folder)
    (run.folder / RECIPE).unlink()
    with pytest.raises(ValueError, match=r"recipe\.yaml: there is no such recipe file"):
        Run.open(run.folder)


def test_the_last_and_the_best_checkpoint(run: Run) -> None:
    with pytest.raises(ValueError, match=r"has no checkpoint yet; `singleshot train --resume"):
        run.checkpoint()
    best = save(run, 5, {"step": 5, "nll": 1.0}, seed=1)
    last = save(run, 9, {"step": 5.0, "nll": 1.0}, seed=2)  # JSON keeps numbers, not whether they are whole
    assert (run.checkpoint().step, run.checkpoint("best").step) == (9, 5)
    for which, expected in (("last", last), ("best", best)):
        loaded = run.load_model(which)
        assert not loaded.training
        assert all(torch.equal(value, expected.state_dict()[name]) for name, value in loaded.state_dict().items())


def test_without_validation_images_there_is_no_best(run: Run) -> None:
    save(run, 3)
    with pytest.raises(ValueError, match=r"no best checkpoint: it was trained without validation images"):
        run.load_model("best")


@pytest.mark.parametrize("best", [{"nll": 1.0}, {"step": "first"}, {"step": None}, {"step": 77}])
def test_a_best_checkpoint_that_cannot_be_is_refused(best: dict[str, Any], run: Run) -> None:
    save(run, 3)
    state = next((run.folder / CHECKPOINTS).glob("*/state.json"))
    state.write_text(json.dumps({**json.loads(state.read_text()), "best": best}))
    with pytest.raises(ValueError, match=r"best step is|no checkpoint of step 77; there are: 3"):
        run.checkpoint("best")


def test_the_normalization_is_that_of_the_training_images(run: Run) -> None:
    images = torch.full((1, 1, 16, 16), 255, dtype=torch.uint8)
    assert torch.allclose(run.normalization()(images), torch.full((1, 1, 16, 16), (1 - 0.3) / 0.35))


def test_differences_name_the_field_and_both_values() -> None:
    assert recipe_differences(TINY, TINY) == []
    other = replace(TINY, epochs=3, loss="ci")
    assert recipe_differences(TINY, other) == [
        "loss is 'vwci' there and 'ci' here",
        "epochs is 300 there and 3 here",
    ]
