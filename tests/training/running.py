"""Training runs in processes of their own, as a user starts them; small enough for a test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

from singleshot.training.run import Run

TINY = ["--dataset", "digits", "--model", "resnet18", "--width", "0.03125", "--image-size", "16"]


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "singleshot", "train", *args]


def torchrun(processes: int, *args: str) -> list[str]:
    return [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), *args,
    ]  # fmt: skip


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def start(arguments: list[str]) -> subprocess.Popen[str]:
    """In a session of its own, so that a signal to its group reaches nobody else."""
    return subprocess.Popen(
        arguments,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(arguments: list[str], timeout: float = 300) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, env=environment(), capture_output=True, text=True, timeout=timeout, check=False)


def saved_step(folder: Path) -> int:
    """The step of the newest checkpoint; −1 where there is none."""
    names = [re.fullmatch(r"step-(\d+)(-\d+)?", path.name) for path in (folder / "checkpoints").glob("step-*")]
    return max((int(name[1]) for name in names if name), default=-1)


def wait_for_step(process: subprocess.Popen[str], folder: Path, step: int, timeout: float = 120) -> None:
    """Until a checkpoint of this step is there, or the process has ended."""
    deadline = time.monotonic() + timeout
    while saved_step(folder) < step and process.poll() is None:
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
