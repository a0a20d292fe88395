"""Real processes under torchrun: the same gradients as one, the same numbers, and a clear end when one is lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from running import TINY, command, environment, finish, saved_step, start, torchrun, wait_for_step
from safetensors.torch import load_file

from singleshot.evaluation.runs import evaluate_run
from singleshot.training import Run
from singleshot.training.metrics_log import read_records
from singleshot.training.processes import Processes
from singleshot.training.run import METRICS

WORKER = str(Path(__file__).with_name("gradient_worker.py"))


def module(*args: str) -> list[str]:
    return torchrun(2, "-m", "singleshot", "train", *args)


def process_of_rank(launcher: subprocess.Popen[str], rank: int) -> int:
    """The worker's process number, found among the children of torchrun."""
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    for child in children:
        if f"\0RANK={rank}\0" in Path(f"/proc/{child}/environ").read_text():
            return int(child)
    raise AssertionError(f"no process of rank {rank} among {children}")


@pytest.mark.parametrize("loss", ["vwci", "cross_entropy"])
def test_two_processes_give_the_gradients_of_one(loss: str, tmp_path: Path) -> None:
    alone, together = tmp_path / "alone", tmp_path / "together"
    for arguments in ([sys.executable, WORKER, str(alone), loss], torchrun(2, WORKER, str(together), loss)):
        done = finish(arguments)
        assert done.returncode == 0, done.stderr
    expected, found = load_file(alone), load_file(together)
    assert expected.keys() == found.keys()  # blocks that all passes dropped have no gradient, here and there
    assert float(expected["1.weight"].abs().max()) > 1e-3
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=0, atol=1e-6)


def test_a_run_of_two_processes_has_one_writer_and_the_numbers_of_all_images(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = finish(module(*TINY, "--loss", "vwci", "--samples", "2", "--epochs", "2", "--output", str(folder)))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("The run:") == 1
    epochs = [record for record in read_records(folder / METRICS) if record["kind"] == "epoch"]
    assert [record["epoch"] for record in epochs] == [1, 2]
    evaluation = evaluate_run(folder, split="validation", replicates=0)
    result = evaluation.result
    assert evaluation.source["step"] == epochs[-1]["step"]
    assert result.count == 90
    for name, value in result.metrics().items():
        assert epochs[-1]["validation"][name] == pytest.approx(value, rel=1e-4, abs=1e-6), name


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_worker_ends_the_run_clearly_and_leaves_a_checkpoint(rank: int, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = [*TINY, "--loss", "cross_entropy", "--epochs", "2000", "--validation", "0", "--output", str(folder)]
    launcher = start(module(*run))
    wait_for_step(launcher, folder, 0)  # saved before the first step, whatever --checkpoint-seconds
    time.sleep(1)
    os.kill(process_of_rank(launcher, rank), signal.SIGKILL)
    _, errors = launcher.communicate(timeout=120)
    assert launcher.returncode != 0
    assert "another process of this run is gone" in errors
    assert "The last checkpoint is that of step" in errors
    assert f"singleshot train --resume {folder}" in errors
    assert saved_step(folder) >= 0
    assert Run.open(folder).load_model() is not None  # whole, by its checksums


def test_a_stopped_run_of_two_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = [*TINY, "--loss", "vwci", "--samples", "2", "--epochs", "12", "--output", str(folder)]
    launcher = start(module(*run))
    wait_for_step(launcher, folder, 12)
    os.kill(launcher.pid, signal.SIGTERM)
    _, errors = launcher.communicate(timeout=120)
    assert launcher.returncode != 0
    assert "interrupted by SIGTERM after step" in errors
    saved = saved_step(folder)
    assert 12 <= saved < 144
    done = finish(module(*run))
    assert done.returncode == 0, done.stderr
    assert f"continuing after step {saved} of 144" in done.stderr
    assert saved_step(folder) == 144
    uninterrupted = tmp_path / "uninterrupted"
    assert finish(module(*run[:-1], str(uninterrupted))).returncode == 0
    expected, found = (Run.open(place).load_model().state_dict() for place in (uninterrupted, folder))
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_three_processes_resume_bit_for_bit_without_dropped_blocks(tmp_path: Path) -> None:
    run = ["--dataset", "digits", "--model", "vgg16", "--width", "0.0625", "--loss", "cross_entropy"]
    run += ["--train-images", "48", "--batch-size", "24", "--validation", "0", "--epochs", "3"]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    saving_always = ["--checkpoint-seconds", "0"]
    assert finish(torchrun(3, "-m", "singleshot", "train", *run, "--output", str(whole))).returncode == 0
    launcher = start(torchrun(3, "-m", "singleshot", "train", *run, "--output", str(stopped), *saving_always))
    wait_for_step(launcher, stopped, 1)
    os.kill(process_of_rank(launcher, 0), signal.SIGKILL)
    launcher.communicate(timeout=120)
    assert saved_step(stopped) < 6
    assert finish(torchrun(3, "-m", "singleshot", "train", *run, "--output", str(stopped))).returncode == 0
    expected, found = (Run.open(place).load_model().state_dict() for place in (whole, stopped))
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_processes_that_were_given_different_things_all_say_so(tmp_path: Path) -> None:
    """As on two machines, where somebody mistyped on one: each process is started by hand."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    started = []
    for rank, epochs in ((0, "2"), (1, "3")):
        place = {
            "RANK": str(rank),
            "LOCAL_RANK": "0",
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
        started.append(
            subprocess.Popen(
                command(*TINY, "--epochs", epochs, "--output", str(tmp_path / "run")),
                env={**environment(), **place},
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    for process in started:
        errors = process.communicate(timeout=120)[1]
        assert process.returncode == 2, errors
        assert "the processes were not given the same recipe and the same images" in errors
        assert "Traceback" not in errors
    assert not (tmp_path / "run" / METRICS).exists()


def test_an_error_of_the_first_process_is_an_error_of_all(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = [*TINY, "--loss", "cross_entropy", "--epochs", "1", "--output", str(folder)]
    assert finish(command(*run)).returncode == 0
    weights = Run.open(folder).checkpoint().folder / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    done = finish(module(*run))
    assert done.returncode != 0
    assert f"singleshot: {weights} is damaged" in done.stderr
    assert f"the first process says: {weights} is damaged" in done.stderr
    assert "singleshot/training" not in done.stderr  # no traceback but torchrun's own


def test_a_batch_that_cannot_be_shared_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"a batch of 10 images cannot be shared equally by 4 processes; choose a --batch"
    ):
        Processes(rank=0, count=4).share_of(10)
    parts = [Processes(rank=rank, count=4).share_of(12) for rank in range(4)]
    assert [list(range(12))[part] for part in parts] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]


def test_an_environment_that_makes_no_sense_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(ValueError, match=r"torchrun's environment must hold whole numbers"):
        Processes.from_environment("cpu")


@pytest.mark.parametrize("device", ["cuda:7", "quantum", "meta:x"])
def test_a_device_that_is_not_there_is_refused(device: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be used here.*--device cpu always can"):
        Processes.from_environment(device)
