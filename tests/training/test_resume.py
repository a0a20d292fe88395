"""A run that is stopped, in whatever way, and continued ends where it would have ended anyway, bit for bit."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from running import TINY, command, finish, saved_step, start, tensors_of, wait_for_step

from singleshot.common.errors import StoppedError
from singleshot.common.files import exclusive
from singleshot.data import load_dataset
from singleshot.evaluation.runs import evaluate_run
from singleshot.training import Recipe, Run, preset, train
from singleshot.training.checkpoint import STATE
from singleshot.training.display import Watcher
from singleshot.training.metrics_log import read_records
from singleshot.training.run import METRICS
from singleshot.training.step import StepResult

RUN = [*TINY, "--loss", "vwci", "--samples", "3", "--epochs", "10", "--seed", "3"]


def assert_same_end(one: Path, other: Path) -> None:
    expected, found = tensors_of(one), tensors_of(other)
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    assert records(one) == records(other)


def records(folder: Path) -> list[dict[str, Any]]:
    """All that was logged, but for how long it took."""
    return [{**record, "seconds": None, "processor_seconds": None} for record in read_records(folder / METRICS)]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    done = finish(command(*RUN, "--output", str(folder)))
    assert done.returncode == 0, done.stderr
    assert saved_step(folder) == 120
    return folder


def test_ten_kills_at_random_moments_change_nothing(uninterrupted: Path, tmp_path: Path) -> None:
    folder, moments = tmp_path / "run", random.Random(0)
    for _ in range(10):
        arguments = command(*RUN, "--output", str(folder), "--checkpoint-seconds", "0")
        process = start(arguments)
        wait_for_step(process, folder, saved_step(folder) + moments.randint(1, 8))
        time.sleep(moments.uniform(0, 0.15))  # in the middle of a step, of an evaluation, of a save
        assert process.poll() is None, process.communicate()[1]
        process.kill()
        process.communicate()
    assert saved_step(folder) < 120
    done = finish(command("--resume", str(folder)))
    assert done.returncode == 0, done.stderr
    assert "continuing after step" in done.stderr
    assert_same_end(uninterrupted, folder)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_where_it_is(number: signal.Signals, code: int, uninterrupted: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start(command(*RUN, "--output", str(folder)))
    wait_for_step(process, folder, 12)  # the first epoch is the best so far, so it is saved
    os.kill(process.pid, number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert f"interrupted by {number.name} after step {saved_step(folder)}" in errors
    assert f"singleshot train --resume {folder}" in errors
    assert "Traceback" not in errors
    assert 12 <= saved_step(folder) < 120
    assert finish(command(*RUN, "--output", str(folder))).returncode == 0  # the same command goes on as well
    assert_same_end(uninterrupted, folder)


def test_a_second_interrupt_exits_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    # A step of many passes, so that the second interrupt comes before the first is granted.
    slow = [*TINY, "--loss", "vwci", "--samples", "400", "--memory", "low", "--epochs", "50"]
    process = start(command(*slow, "--output", str(folder)))
    wait_for_step(process, folder, 0)  # saved before the first step, which now begins
    os.kill(process.pid, signal.SIGINT)
    assert process.stderr is not None
    errors = ""
    while "Ctrl-C again" not in errors and process.poll() is None:
        errors += process.stderr.readline()
    os.kill(process.pid, signal.SIGINT)
    errors += process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert "Ctrl-C again to exit at once" in errors
    assert "interrupted by" not in errors  # it did not wait for the step
    assert saved_step(folder) == 0  # where it began


def test_a_loss_that_is_no_number_stops_the_run_with_a_good_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    wild = [*TINY, "--loss", "cross_entropy", "--learning-rate", "1e30", "--milestones", "--epochs", "3"]
    done = finish(command(*wild, "--output", str(folder), "--checkpoint-seconds", "0"))
    assert done.returncode == 1
    assert "the loss is not a finite number any more, at learning rate 1e+30" in done.stderr
    assert "Traceback" not in done.stderr
    assert f"The last checkpoint is that of step {saved_step(folder)}" in done.stderr
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


def test_callers_random_state_is_left_alone(tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(quick(epochs=1), tmp_path / "run")
    assert torch.equal(torch.rand(3), expected)


def test_best_is_the_epoch_with_the_lowest_validation_nll(tmp_path: Path) -> None:
    run = train(quick(epochs=6, validation=0.3), tmp_path / "run")
    epochs = [record for record in read_records(run.folder / METRICS) if record["kind"] == "epoch"]
    best = min(epochs, key=lambda record: float(record["validation"]["nll"]))
    assert run.checkpoint("best").step == best["step"]
    assert run.checkpoint("last").step == epochs[-1]["step"]
    assert len(list((run.folder / "checkpoints").iterdir())) == len({best["step"], epochs[-1]["step"]})


def test_without_validation_images_there_is_no_best(tmp_path: Path) -> None:
    run = train(quick(validation=0.0), tmp_path / "run")
    assert all("test" in record for record in read_records(run.folder / METRICS) if record["kind"] == "epoch")
    with pytest.raises(ValueError, match="trained without validation images"):
        run.checkpoint("best")


def test_the_last_share_alone_uses_the_loss(tmp_path: Path) -> None:
    base = train(quick(epochs=5, validation=0.0), tmp_path / "base")
    late = train(quick(epochs=5, validation=0.0, loss="vwci", last_share=0.2), tmp_path / "late")
    alphas = {record["epoch"]: record["alpha"] for record in read_records(late.folder / METRICS)}
    assert [epoch for epoch, alpha in alphas.items() if alpha is not None] == [5]
    star = train(
        quick(epochs=5, validation=0.0, loss="vwci", last_share=0.2, start_from=str(base.folder)), tmp_path / "star"
    )
    assert [record["epoch"] for record in read_records(star.folder / METRICS)] == [5]
    weights = [Run.open(run.folder).load_model().state_dict() for run in (base, star)]
    assert any(not torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_data_set_that_has_changed_is_not_trained_on_any_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(quick(epochs=1), tmp_path / "run")
    other = replace(load_dataset("digits", image_size=16), mean=(0.5,))
    monkeypatch.setattr("singleshot.training.trainer.load_dataset", lambda *args, **options: other)
    with pytest.raises(ValueError, match="the images or classes of digits are not those that it began with"):
        train(quick(epochs=1), tmp_path / "run")


class StopAfter(Watcher):
    """Sends this process a SIGTERM, as a scheduler would, in the middle of a run."""

    def __init__(self, step: int) -> None:
        self.step = step

    def stepped(self, step: int, result: StepResult, learning_rate: float) -> None:
        if step == self.step:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    "options",
    [
        {"precision": "float16"},
        {"precision": "bfloat16", "loss": "vwci", "samples": 2, "memory": "low"},
        {"evaluate_every": 3, "validation": 0.0, "clip_gradient": 0.5},
        {"batch_size": 10, "momentum": 0.0, "train_images": 35},
    ],
    ids=str,
)
@pytest.mark.parametrize("step", [2, 3])  # in the middle of an epoch of three steps, and at its end
def test_a_stopped_run_ends_as_one_that_was_not(options: dict[str, Any], step: int, tmp_path: Path) -> None:
    recipe = quick(**{"batch_size": 30, **options})
    train(recipe, tmp_path / "whole")
    with pytest.raises(StoppedError, match="interrupted by SIGTERM after step") as caught:
        train(recipe, tmp_path / "stopped", watcher=StopAfter(step))
    assert caught.value.exit_code == 143
    train(recipe, tmp_path / "stopped")
    assert_same_end(tmp_path / "whole", tmp_path / "stopped")


def test_a_run_that_starts_from_another_goes_on_even_when_that_is_gone(tmp_path: Path) -> None:
    base = train(quick(validation=0.0, batch_size=30), tmp_path / "base")
    recipe = quick(validation=0.0, batch_size=10, epochs=4, loss="vwci", start_from=str(base.folder))
    assert recipe.resolved().last_share == 0.2
    whole = train(recipe, tmp_path / "whole")
    with pytest.raises(StoppedError):
        train(recipe, tmp_path / "stopped", watcher=StopAfter(34))
    shutil.rmtree(base.folder)
    train(recipe, tmp_path / "stopped")
    assert_same_end(whole.folder, tmp_path / "stopped")


def test_a_checkpoint_of_another_recipe_is_refused(tmp_path: Path) -> None:
    one, other = (train(quick(seed=seed), tmp_path / str(seed)) for seed in (0, 1))
    shutil.rmtree(one.folder / "checkpoints")
    shutil.copytree(other.folder / "checkpoints", one.folder / "checkpoints")
    for use in (lambda: evaluate_run(one.folder), lambda: train(quick(seed=0), one.folder)):
        with pytest.raises(ValueError, match="is of a run with another recipe"):
            use()


@pytest.mark.parametrize(
    "harm",
    [
        {"step": 10**6},
        {"step": -1},
        {"sums": {"loss": "x"}},
        {"best": {"step": 1}},
        {"epochs_closed": -5},
        {"scaler": 3},
    ],
    ids=str,
)
def test_a_state_that_makes_no_sense_is_refused(harm: dict[str, Any], tmp_path: Path) -> None:
    run = train(quick(epochs=1), tmp_path / "run")
    file = run.checkpoint().folder / STATE
    file.write_text(json.dumps({**json.loads(file.read_text()), **harm}))
    with pytest.raises(ValueError, match=r"step|state is not that of a run|checkpoint"):
        train(quick(epochs=1), run.folder)


def test_a_changed_data_set_is_not_evaluated_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = train(quick(epochs=1), tmp_path / "run")
    whole = load_dataset("digits", image_size=16)
    fewer = replace(whole, test=whole.test.take(torch.arange(10)))
    monkeypatch.setattr("singleshot.evaluation.runs.load_dataset", lambda *args, **options: fewer)
    with pytest.raises(ValueError, match="not those that it began with"):
        evaluate_run(run.folder)


def test_the_writer_alone_holds_the_folder(tmp_path: Path) -> None:
    with exclusive(tmp_path / "run"), pytest.raises(ValueError, match="in use by another singleshot process"):
        train(quick(), tmp_path / "run")
