"""Several processes: the gradients and numbers of one, and a clear error when a process is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import pytest
import torch
from gradient_worker import save_gradients
from running import (
    TINY,
    Started,
    finish,
    group,
    saved_step,
    train_command,
    train_group,
    train_with_epochs_by_rank,
    wait_for_step,
)
from safetensors.torch import load_file

from singleshot.common.loss_names import LossName
from singleshot.evaluation.loaded_run import LoadedRun
from singleshot.self_tuning import SelfTunedStrength
from singleshot.training import Run
from singleshot.training.distributed import Processes
from singleshot.training.inference import logits_of
from singleshot.training.run import METRICS_LOG


def assert_same_weights(one: Path, other: Path) -> None:
    expected, found = (Run.open(place).load_model().state_dict() for place in (one, other))
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_two_processes_have_the_gradients_of_one(tmp_path: Path) -> None:
    finish(*group(2, save_gradients, tmp_path / "together"), Started(save_gradients, tmp_path / "alone"))
    for loss in (*get_args(LossName), "one gradient pass", "uneven", "empty"):
        expected, found = load_file(tmp_path / "alone" / loss), load_file(tmp_path / "together" / loss)
        assert expected.keys() == found.keys()  # blocks that all passes dropped have no gradient
        assert float(expected["1.weight"].abs().max()) > 1e-3
        for name, gradient in expected.items():  # "result" has the loss
            torch.testing.assert_close(found[name], gradient, rtol=0, atol=1e-6, msg=f"{loss}: {name}")


def test_a_run_of_two_processes_prints_once_and_evaluates_all_images(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    tuned = ["--loss", "vwci", "--samples", "2", "--gradient-passes", "1", "--strength", "auto", "--give-back", "0"]
    started = train_group(2, *TINY, *tuned, "--epochs", "2", "--output", str(folder))
    finish(*started)
    assert "The run:" in started[0].output
    assert started[1].output == ""
    epochs = [record for record in Run.open(folder).records() if record["kind"] == "epoch"]
    assert [record["epoch"] for record in epochs] == [1, 2]
    evaluation = LoadedRun.open(folder, split="validation").evaluate(replicates=0)
    assert Run.open(folder).checkpoint().step == epochs[-1]["step"]
    assert evaluation.result.count == 90
    updates = [record for record in Run.open(folder).records() if record["kind"] == "strength"]
    held_out = LoadedRun.open(folder, split="validation")
    logits, labels = logits_of(held_out.model, held_out.images, held_out.positions, held_out.normalization)
    alone = SelfTunedStrength("vwci")
    assert updates[-1]["temperature"] == pytest.approx(alone.update(logits=logits, labels=labels), rel=1e-3)
    assert updates[-1]["step"] == epochs[-1]["step"]
    for name, value in evaluation.result.metrics().items():
        assert epochs[-1]["validation"][name] == pytest.approx(value, rel=1e-4, abs=1e-6), name


ENDLESS = [*TINY, "--loss", "cross_entropy", "--epochs", "2000", "--validation", "0"]


def assert_clear_end(errors: str, folder: Path) -> None:
    assert "another process of this run was lost" in errors
    assert f"The last checkpoint is from step {saved_step(folder)}" in errors
    assert f"singleshot train --resume {folder}" in errors
    assert Run.open(folder).load_model() is not None  # its checksums match


def test_a_killed_worker_of_torchrun_ends_the_run_with_a_clear_error(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    launcher = subprocess.Popen(
        [*torchrun, "-m", "singleshot", "train", *ENDLESS, "--output", str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for_step(lambda: launcher.poll() is None, folder, 0)  # saved before the first step
    time.sleep(1)
    for child in Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split():
        if "\0RANK=1\0" in Path(f"/proc/{child}/environ").read_text():
            os.kill(int(child), signal.SIGKILL)  # torchrun then sends SIGTERM to the other
    errors = launcher.communicate(timeout=120)[1]
    assert launcher.returncode != 0
    assert_clear_end(errors, folder)


def test_a_killed_main_process_ends_the_others_with_a_clear_error(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    main, other = train_group(2, *ENDLESS, "--output", str(folder))
    wait_for_step(main.process.is_alive, folder, 0)
    time.sleep(0.5)
    main.process.kill()
    assert other.finish().code == 1
    assert_clear_end(other.errors, folder)


def test_an_interrupted_run_of_two_processes_resumes(tmp_path: Path) -> None:
    stopped, whole = tmp_path / "run", tmp_path / "whole"
    run = [*TINY, "--loss", "vwci", "--strength", "1", "--samples", "2", "--epochs", "6", "--output"]
    started = train_group(2, *run, str(stopped))
    wait_for_step(started[0].process.is_alive, stopped, 12)
    os.kill(started[1].pid, signal.SIGTERM)
    assert [one.finish().code for one in started] == [143, 143]
    saved = saved_step(stopped)
    assert 12 <= saved < 72
    assert f"interrupted in another process after step {saved}" in started[0].errors
    assert f"interrupted by SIGTERM after step {saved}" in started[1].errors
    resumed = train_group(2, *run, str(stopped))
    finish(*resumed)
    assert f"resuming after step {saved} of 72" in resumed[0].errors
    finish(*train_group(2, *run, str(whole)))
    assert_same_weights(whole, stopped)


def test_three_processes_resume_bit_for_bit_without_dropped_blocks(tmp_path: Path) -> None:
    run = ["--dataset", "digits", "--model", "vgg16", "--width", "0.0625", "--loss", "cross_entropy", "--no-report"]
    run += ["--train-images", "48", "--batch-size", "24", "--validation", "0", "--epochs", "3"]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    finish(*train_group(3, *run, "--output", str(whole)))
    started = train_group(3, *run, "--output", str(stopped), "--checkpoint-seconds", "0")
    wait_for_step(started[0].process.is_alive, stopped, 1)
    started[0].process.kill()
    for one in started:
        one.finish()
    assert saved_step(stopped) < 6
    finish(*train_group(3, *run, "--output", str(stopped)))
    assert_same_weights(whole, stopped)


def test_processes_with_different_recipes_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    started = group(2, train_with_epochs_by_rank, str(folder))
    for one in started:
        assert one.finish().code == 2, one.errors
        assert "the processes have different recipes or images" in one.errors
        assert "Traceback" not in one.errors
    assert not (folder / METRICS_LOG).exists()


def test_an_error_in_the_main_process_is_raised_in_all(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = [*TINY, "--loss", "cross_entropy", "--epochs", "1", "--output", str(folder)]
    finish(train_command(*run))
    weights = Run.open(folder).checkpoint().folder / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    main, other = train_group(2, *run)
    assert main.finish().code == other.finish().code == 2
    assert f"singleshot: {weights} is damaged" in main.errors
    assert f"singleshot: error in the main process: {weights} is damaged" in other.errors
    assert "Traceback" not in main.errors + other.errors


def test_a_batch_that_cannot_be_divided_is_refused() -> None:
    with pytest.raises(ValueError, match="a batch of 10 images cannot be divided equally among 4 processes; choose a"):
        Processes(rank=0, count=4).batch_slice(10)
    parts = [Processes(rank=rank, count=4).batch_slice(12) for rank in range(4)]
    assert [list(range(12))[part] for part in parts] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]


def test_an_unavailable_device_is_refused() -> None:
    for device in ("cuda:7", "quantum", "meta:x"):
        with pytest.raises(ValueError, match=r"is not available: .*; use --device cpu"):
            Processes.from_environment(device)
