"""Training commands in separate processes, forked from a server that has imported torch."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import resource
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from singleshot.common.files import fingerprint
from singleshot.training.checkpoint import MANIFEST, STATE, Checkpoints, TrainingState
from singleshot.training.run import Run

TINY = ["--dataset", "digits", "--model", "resnet18", "--width", "0.03125", "--image-size", "16", "--no-report"]
# A server that has imported everything, and forks a process for each command.
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    ["pytest", "sklearn.datasets", "torch._dynamo", "singleshot.cli.train", "singleshot.training.trainer"]
)


class Started:
    """A process that runs a function, with its standard output and error in files."""

    def __init__(self, function: Callable[..., None], *args: Any, **environment: str) -> None:
        self._files = [Path(tempfile.mkstemp()[1]) for _ in range(2)]
        self.process: BaseProcess = _SERVER.Process(
            target=_run, args=(function, args, self._files, {"OMP_NUM_THREADS": "1", **environment})
        )
        self.process.start()

    def finish(self, timeout: float = 120) -> Started:
        self.process.join(timeout)
        if self.process.is_alive():
            self.process.kill()
            raise TimeoutError(self.errors)
        return self

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    @property
    def code(self) -> int | None:
        return self.process.exitcode

    @property
    def output(self) -> str:
        return self._files[0].read_text()

    @property
    def errors(self) -> str:
        return self._files[1].read_text()


def _run(function: Callable[..., None], args: tuple[Any, ...], files: list[Path], environment: dict[str, str]) -> None:
    os.environ.update(environment)
    for stream, file in zip((sys.stdout, sys.stderr), files, strict=True):
        os.dup2(os.open(file, os.O_WRONLY), stream.fileno())
    function(*args)


def _train(*args: str) -> None:
    from singleshot.cli.main import main

    torch.set_num_threads(1)
    main(["train", *args])


def train_command(*args: str, **environment: str) -> Started:
    """Start ``singleshot train``."""
    return Started(_train, *args, **environment)


def group(count: int, function: Callable[..., None], *args: Any) -> list[Started]:
    """Start one process per rank, as torchrun does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    address = {"WORLD_SIZE": str(count), "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [Started(function, *args, RANK=str(rank), **address) for rank in range(count)]


def train_group(count: int, *args: str) -> list[Started]:
    """Start ``singleshot train`` in several processes of one run."""
    return group(count, _train, *args)


def train_with_epochs_by_rank(folder: str) -> None:
    """Run ``singleshot train`` with a recipe that differs between the processes."""
    _train(*TINY, "--epochs", str(2 + int(os.environ["RANK"])), "--output", folder)


def finish(*started: Started) -> None:
    """Wait for all processes to succeed."""
    for one in started:
        assert one.finish().code == 0, one.errors


def saved_step(folder: Path) -> int:
    """The step of the newest checkpoint; −1 without one."""
    names = [re.fullmatch(r"step-(\d+)(-\d+)?", path.name) for path in (folder / "checkpoints").glob("step-*")]
    return max((int(name[1]) for name in names if name), default=-1)


def wait_for_step(is_running: Callable[[], bool], folder: Path, step: int, timeout: float = 120) -> None:
    """Wait until there is a checkpoint of this step, or the process has ended."""
    deadline = time.monotonic() + timeout
    while saved_step(folder) < step and is_running():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no checkpoint of step {step} after {timeout} s")
        time.sleep(0.002)


def tensors_of(folder: Path) -> dict[str, Tensor]:
    """Weights and optimizer state of the last checkpoint."""
    checkpoint = Run.open(folder).checkpoint().folder
    return {
        f"{path.stem}/{name}": value
        for path in checkpoint.glob("*.safetensors")
        for name, value in load_file(path).items()
    }


def rewrite_state(checkpoint: Path, **changes: Any) -> None:
    """Change the state of a checkpoint, with a matching checksum."""
    state = json.loads((checkpoint / STATE).read_text())
    (checkpoint / STATE).write_text(json.dumps(state | changes))
    accept(checkpoint, STATE)


def accept(checkpoint: Path, name: str) -> None:
    """Put the present checksum of a file into the manifest."""
    manifest = json.loads((checkpoint / MANIFEST).read_text())
    manifest["files"][name] = fingerprint(checkpoint / name)
    (checkpoint / MANIFEST).write_text(json.dumps(manifest))


def save_on_a_full_disk(folder: Path) -> Started:
    """Save a checkpoint, then fail to save another because the disk is full."""
    return Started(_save_twice, folder)


def _save_twice(folder: Path) -> None:
    model = nn.Linear(100, 100)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    checkpoints = Checkpoints(folder)
    checkpoints.save(model, optimizer, TrainingState(1, epochs_closed=0), recipe_hash="abc")
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
    message = "the checkpoint of step 2 could not be written.*the one from step 1 is kept"
    with pytest.raises(OSError, match=message):
        checkpoints.save(model, optimizer, TrainingState(2, epochs_closed=0), recipe_hash="abc")
