"""An interrupted and resumed run gives the same result as an uninterrupted one, bit for bit."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from running import TINY, accept, finish, rewrite_state, saved_step, tensors_of, train_command, wait_for_step

from singleshot.common.errors import StoppedError
from singleshot.common.files import exclusive
from singleshot.data import load_dataset
from singleshot.evaluation.loaded_run import LoadedRun
from singleshot.training import Recipe, Run, preset, train
from singleshot.training.checkpoint import STATE
from singleshot.training.display import Callback, EpochEvaluation
from singleshot.training.inference import logits_of
from singleshot.training.schedule import trained_and_held_out, unused_positions
from singleshot.training.step import StepResult

RUN = [*TINY, "--loss", "vwci", "--samples", "3", "--epochs", "6", "--seed", "3"]
RUN += ["--gradient-passes", "1", "--strength", "auto"]


def assert_same_result(one: Path, other: Path) -> None:
    expected, found = tensors_of(one), tensors_of(other)
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    assert records(one) == records(other)


def records(folder: Path) -> list[dict[str, Any]]:
    """All records without their times."""
    return [{**record, "seconds": None, "processor_seconds": None} for record in Run.open(folder).records()]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    finish(train_command(*RUN, "--output", str(folder)))
    assert saved_step(folder) == 72
    return folder


def test_kills_at_random_times_do_not_change_the_result(uninterrupted: Path, tmp_path: Path) -> None:
    folder, moments = tmp_path / "run", random.Random(0)
    for _ in range(5):
        started = train_command(*RUN, "--output", str(folder), "--checkpoint-seconds", "0")
        wait_for_step(started.process.is_alive, folder, saved_step(folder) + moments.randint(1, 5))
        time.sleep(moments.uniform(0, 0.15))  # during a step, an evaluation or a save
        assert started.process.is_alive(), started.errors
        started.process.kill()
        started.finish()
    assert saved_step(folder) < 72
    resumed = train_command("--resume", str(folder))
    finish(resumed)
    assert "resuming after step" in resumed.errors
    assert_same_result(uninterrupted, folder)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_stops(number: signal.Signals, code: int, uninterrupted: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    started = train_command(*RUN, "--output", str(folder), "--checkpoint-seconds", "0")
    wait_for_step(started.process.is_alive, folder, 12)
    os.kill(started.pid, number)
    assert started.finish().code == code
    assert f"interrupted by {number.name} after step {saved_step(folder)}" in started.errors
    assert f"singleshot train --resume {folder}" in started.errors
    assert "Traceback" not in started.errors
    assert 12 <= saved_step(folder) < 72
    finish(train_command(*RUN, "--output", str(folder)))  # the same command resumes as well
    assert_same_result(uninterrupted, folder)


def test_a_second_interrupt_exits_immediately(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    # A step of many passes, so that the second interrupt comes before the step ends.
    slow = [*TINY, "--loss", "vwci", "--samples", "400", "--memory", "low", "--epochs", "50", "--strength", "1"]
    started = train_command(*slow, "--output", str(folder))
    wait_for_step(started.process.is_alive, folder, 0)  # saved before the first step
    os.kill(started.pid, signal.SIGINT)
    while "Ctrl-C again" not in started.errors and started.process.is_alive():
        time.sleep(0.01)
    os.kill(started.pid, signal.SIGINT)
    assert started.finish(30).code == 130
    assert "Ctrl-C again to exit immediately" in started.errors
    assert "interrupted by" not in started.errors  # it did not wait for the step
    assert saved_step(folder) == 0


def test_divergence_stops_with_a_finite_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    wild = [*TINY, "--loss", "cross_entropy", "--learning-rate", "1e30", "--milestones", "--epochs", "3"]
    stopped = train_command(*wild, "--output", str(folder), "--checkpoint-seconds", "0").finish()
    assert stopped.code == 1
    assert "the loss is no longer finite, at learning rate 1e+30" in stopped.errors
    assert "Traceback" not in stopped.errors
    assert f"The last checkpoint is from step {saved_step(folder)}" in stopped.errors
    assert all(bool(value.isfinite().all()) for value in tensors_of(folder).values())


def quick(**options: Any) -> Recipe:
    defaults: dict[str, Any] = {
        "width": 0.03125,
        "image_size": 16,
        "epochs": 2,
        "loss": "cross_entropy",
        "train_images": 100,
    }
    return replace(preset("small", model="resnet18", dataset="digits"), **{**defaults, **options})


def test_the_global_random_state_is_unchanged(tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(quick(epochs=1), tmp_path / "run")
    assert torch.equal(torch.rand(3), expected)


def test_best_is_the_epoch_with_the_lowest_validation_nll(tmp_path: Path) -> None:
    run = train(quick(epochs=6, validation=0.3), tmp_path / "run")
    epochs = [record for record in run.records() if record["kind"] == "epoch"]
    best = min(epochs, key=lambda record: float(record["validation"]["nll"]))
    assert run.checkpoint("best").step == best["step"]
    assert run.checkpoint("last").step == epochs[-1]["step"]
    assert len(list((run.folder / "checkpoints").iterdir())) == len({best["step"], epochs[-1]["step"]})


def test_without_validation_images_there_is_no_best(tmp_path: Path) -> None:
    run = train(quick(validation=0.0), tmp_path / "run")
    assert all("test" in record for record in run.records() if record["kind"] == "epoch")
    with pytest.raises(ValueError, match="no validation images are held out"):
        run.checkpoint("best")


def test_only_the_last_share_uses_the_loss(tmp_path: Path) -> None:
    base = train(quick(epochs=5, validation=0.0), tmp_path / "base")
    late = train(quick(epochs=5, validation=0.0, loss="vwci", last_share=0.2), tmp_path / "late")
    alphas = {record["epoch"]: record["alpha"] for record in late.records()}
    assert [epoch for epoch, alpha in alphas.items() if alpha is not None] == [5]
    star = train(
        quick(epochs=5, validation=0.0, loss="vwci", last_share=0.2, start_from=str(base.folder)), tmp_path / "star"
    )
    assert [record["epoch"] for record in star.records()] == [5]
    weights = [Run.open(run.folder).load_model().state_dict() for run in (base, star)]
    assert any(not torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_changed_data_set_is_refused_on_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(quick(epochs=1), tmp_path / "run")
    other = replace(load_dataset("digits", image_size=16), mean=(0.5,))
    monkeypatch.setattr("singleshot.training.schedule.load_dataset", lambda *args, **options: other)
    with pytest.raises(ValueError, match="the images or classes of digits have changed"):
        train(quick(epochs=1), tmp_path / "run")


class StopAfter(Callback):
    """Sends this process a SIGTERM, as a scheduler would, in the middle of a run."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, step: int, result: StepResult, learning_rate: float) -> None:
        if step == self.step:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    "options",
    [
        {"precision": "float16"},
        {"precision": "bfloat16", "loss": "vwci", "strength": 1.0, "samples": 2, "memory": "low"},
        {"evaluate_every": 3, "validation": 0.0, "clip_gradient": 0.5},
        {"batch_size": 10, "momentum": 0.0, "train_images": 35},
        {"loss": "vwci", "samples": 3, "gradient_passes": 1, "strength": "auto", "epochs": 6, "last_share": 0.9},
        {"loss": "adafocal", "epochs": 6},
    ],
    ids=str,
)
def test_an_interrupted_run_gives_the_same_result(options: dict[str, Any], tmp_path: Path) -> None:
    recipe = quick(**{"batch_size": 30, **options})
    train(recipe, tmp_path / "whole")
    # Within an epoch of three steps, at its end, and when the strength was tuned.
    for step in (2, 15, 16) if recipe.is_tuned else (2, 3):
        folder = tmp_path / str(step)
        with pytest.raises(StoppedError, match="interrupted by SIGTERM after step") as caught:
            train(recipe, folder, callback=StopAfter(step))
        assert caught.value.exit_code == 143
        train(recipe, folder)
        assert_same_result(tmp_path / "whole", folder)


class KilledError(BaseException):
    """Ends a run without saving, as a kill would."""


class KillAtUpdate(Callback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_strength(self, step: int, strength: object) -> None:
        if step == self.step:
            raise KilledError


class StopAtEvaluation(Callback):
    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_evaluation(self, evaluation: EpochEvaluation) -> None:
        if evaluation.epoch == self.epoch:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("callback", [KillAtUpdate(16), KillAtUpdate(18), StopAtEvaluation(6)])
def test_an_update_of_the_strength_is_saved_and_logged_once(callback: Callback, tmp_path: Path) -> None:
    options: dict[str, Any] = {"loss": "label_smoothing", "strength": "auto", "give_back": 0.0, "last_share": 1.0}
    recipe = quick(batch_size=30, epochs=6, **options)  # updates after 16 and 18 steps
    whole = train(recipe, tmp_path / "whole")
    with suppress(KilledError, StoppedError):
        train(recipe, tmp_path / "run", callback=callback, checkpoint_seconds=0)
    run = train(recipe, tmp_path / "run")
    assert_same_result(whole.folder, run.folder)
    for one in (whole, run):
        state = one.checkpoint().state
        assert state.tuned_at == 18
        assert state.strength == whole.checkpoint().state.strength
        assert state.strength["score"] == [record["score"] for record in records(one.folder) if "score" in record][-1]


def test_held_out_images_of_a_single_class_are_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"held-out image.* of a single class.*--validation"):
        train(quick(train_images=10, batch_size=3, loss="focal", strength="auto"), tmp_path / "run")
    assert not (tmp_path / "run" / "recipe.yaml").exists()


def test_a_run_that_starts_from_another_resumes_without_it(tmp_path: Path) -> None:
    base = train(quick(validation=0.0, batch_size=30), tmp_path / "base")
    recipe = quick(validation=0.0, batch_size=10, epochs=4, loss="vwci", start_from=str(base.folder))
    assert recipe.resolved().last_share == 0.2
    whole = train(recipe, tmp_path / "whole")
    with pytest.raises(StoppedError):
        train(recipe, tmp_path / "stopped", callback=StopAfter(34))
    shutil.rmtree(base.folder)
    train(recipe, tmp_path / "stopped")
    assert_same_result(whole.folder, tmp_path / "stopped")


def test_a_checkpoint_of_another_recipe_is_refused(tmp_path: Path) -> None:
    one, other = (train(quick(seed=seed), tmp_path / str(seed)) for seed in (0, 1))
    shutil.rmtree(one.folder / "checkpoints")
    shutil.copytree(other.folder / "checkpoints", one.folder / "checkpoints")
    for use in (lambda: LoadedRun.open(one.folder), lambda: train(quick(seed=0), one.folder)):
        with pytest.raises(ValueError, match="belongs to another recipe"):
            use()


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    run = train(quick(epochs=1), tmp_path / "run")
    folder = run.checkpoint().folder
    state = (folder / STATE).read_text()
    harms: list[dict[str, Any]] = [
        {"step": 10**6},
        {"step": -1},
        {"step": 0.5},
        {"sums": None},
        {"sums": {"loss": "x"}},
        {"best": {"step": 1}},
        {"epochs_closed": -5},
        {"scaler": 3},
        {"processor_seconds": []},
    ]
    for harm in harms:
        (folder / STATE).write_text(state)
        rewrite_state(folder, **harm)
        with pytest.raises(ValueError, match=r"state\.json is (missing or )?damaged"):
            train(quick(epochs=1), run.folder)


def test_unrecorded_processor_time_stays_unknown(tmp_path: Path) -> None:
    recipe = quick(batch_size=30)
    with pytest.raises(StoppedError):
        train(recipe, tmp_path / "run", callback=StopAfter(2))
    file = Run.open(tmp_path / "run").checkpoint().folder / STATE
    content = json.loads(file.read_text())
    del content["processor_seconds"]  # as in older checkpoints
    file.write_text(json.dumps(content))
    accept(file.parent, STATE)
    run = train(recipe, tmp_path / "run")
    assert run.checkpoint().state.processor_seconds is None
    assert {record["processor_seconds"] for record in run.records()} == {None}


def test_a_changed_data_set_is_not_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = train(quick(epochs=1), tmp_path / "run")
    whole = load_dataset("digits", image_size=16)
    fewer = replace(whole, test=whole.test.take(torch.arange(10)))
    monkeypatch.setattr("singleshot.training.schedule.load_dataset", lambda *args, **options: fewer)
    with pytest.raises(ValueError, match="was trained on other data"):
        LoadedRun.open(run.folder)


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    with exclusive(tmp_path / "run"), pytest.raises(ValueError, match="in use by another singleshot process"):
        train(quick(), tmp_path / "run")


def test_a_recipe_of_another_type_is_refused(tmp_path: Path) -> None:
    settings: Any = {"epochs": 1}
    with pytest.raises(TypeError, match="recipe must be a Recipe, got dict"):
        train(settings, tmp_path)


def test_a_tracked_run_evaluates_training_images_and_images_that_no_run_uses(tmp_path: Path) -> None:
    recipe = quick(epochs=4, evaluate_every=2, train_images=60, validation=0.0, track=True)
    run = train(recipe, tmp_path / "run")
    evaluated = [record for record in run.records() if record["kind"] == "epoch" and "train" in record]
    assert [record["epoch"] for record in evaluated] == [2, 4]
    assert all("test" not in record for record in evaluated)
    dataset = load_dataset("digits", image_size=16)
    trained, _ = trained_and_held_out(run.recipe, dataset.train.labels)
    unused = unused_positions(run.recipe, dataset.train.labels)
    assert sorted([*trained.tolist(), *unused.tolist()]) == list(range(len(dataset.train)))
    for split, positions in (("train", trained), ("unused", unused)):
        logits, labels = logits_of(run.load_model(), dataset.train, positions, run.normalization())
        accuracy = float((logits.argmax(1) == labels).double().mean())
        assert evaluated[-1][split]["accuracy"] == pytest.approx(accuracy)
    plain = train(replace(recipe, track=False), tmp_path / "plain")
    assert_same_weights(run.folder, plain.folder)


def assert_same_weights(one: Path, other: Path) -> None:
    expected, found = tensors_of(one), tensors_of(other)
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_images_that_the_weights_were_trained_on_are_not_held_out(tmp_path: Path) -> None:
    everything = train(quick(validation=0.0), tmp_path / "everything")
    given_back = train(quick(loss="vwci", samples=2, strength="auto"), tmp_path / "given back")
    held_out = train(quick(validation=0.1), tmp_path / "held out")
    for start in (everything, given_back):
        for strength in ("auto", 1.0):
            with pytest.raises(ValueError, match="trained on images that this run would hold out"):
                train(quick(loss="vwci", strength=strength, start_from=str(start.folder)), tmp_path / "star")
    train(quick(loss="vwci", strength="auto", start_from=str(held_out.folder)), tmp_path / "star")


def test_a_run_with_the_first_classes_knows_no_others(tmp_path: Path) -> None:
    run = train(quick(classes=3, epochs=1, train_images=60), tmp_path / "run")
    assert run.info.class_names == ("0", "1", "2")
    assert run.load_model()(torch.zeros(1, 1, 16, 16)).shape == (1, 3)
    loaded = LoadedRun.open(run.folder)
    assert set(loaded.images.labels[loaded.positions].tolist()) == {0, 1, 2}
    whole, part = load_dataset("digits", image_size=16), load_dataset("digits", image_size=16, classes=3)
    assert len(part.train) == int((whole.train.labels < 3).sum())
    assert (part.mean, part.std) == (whole.mean, whole.std)
    with pytest.raises(ValueError, match=r"classes must lie in \[2, 10\] for digits, got 11"):
        train(quick(classes=11), tmp_path / "more")
