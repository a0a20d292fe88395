"""Training that is killed, stopped, out of disk space or damaged on disk, and then resumed to the same weights."""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

import torch
from running import tensors_of

from singleshot.cli.main import main
from singleshot.common.files import write_atomically
from torture.mutation import flip_bit
from torture.tally import Tally

RUN = ["--dataset", "digits", "--model", "resnet18", "--width", "0.03125", "--image-size", "8", "--no-report"]
RUN += ["--loss", "vwci", "--samples", "2", "--epochs", "2", "--seed", "3", "--checkpoint-seconds", "0"]
PROCESSES = multiprocessing.get_context("fork")


def train(arguments: Sequence[str], errors: Path, file_limit: int | None = None) -> None:
    """Run ``singleshot train`` in this process, with its messages in a file."""
    torch.set_num_threads(1)
    sys.stdout = sys.stderr = errors.open("w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), 2)
    if file_limit is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
    main(["train", *arguments])


def interrupted_training(tally: Tally) -> None:
    """Interrupt a run several times, finish it, and compare its weights with those of an uninterrupted run."""
    reference, folder, errors = tally.shared / "reference", tally.folder / "run", tally.folder / "errors.txt"
    if not reference.exists():
        run_to_end(tally.folder / "new", errors)
        (tally.folder / "new").rename(reference)
    for number in range(tally.random.randint(1, 3)):
        harm = tally.random.choice([kill, kill, terminate, fill_disk])
        with tally.case(f"{number}: {harm.__name__}"):
            harm(folder, errors, tally.random)
            assert "Traceback" not in errors.read_text(), errors.read_text()
    with tally.case("resumed to the same weights"):
        run_to_end(folder, errors)
        expected, found = tensors_of(reference), tensors_of(folder)
        assert expected.keys() == found.keys()
        assert all(torch.equal(expected[name], found[name]) for name in expected), "other weights"
    with tally.case("damaged checkpoint"):
        damage(folder, errors, tally.random)


def run_to_end(folder: Path, errors: Path) -> None:
    process = start(folder, errors)
    process.join(120)
    assert process.exitcode == 0, errors.read_text()


def start(folder: Path, errors: Path, file_limit: int | None = None) -> multiprocessing.process.BaseProcess:
    process = PROCESSES.Process(target=train, args=([*RUN, "--output", str(folder)], errors, file_limit))
    process.start()
    return process


def kill(folder: Path, errors: Path, random: Random) -> None:
    """End the process with SIGKILL at a random time."""
    process = start(folder, errors)
    time.sleep(random.uniform(0, 2))
    process.kill()
    process.join()


def terminate(folder: Path, errors: Path, random: Random) -> None:
    """End the process with SIGTERM at a random time: it says so, and exits with 143."""
    process = start(folder, errors)
    time.sleep(random.uniform(0.1, 2))
    process.terminate()
    process.join(60)
    # Before `main` has set its handler, the signal ends the process.
    assert process.exitcode in (0, 143, -signal.SIGTERM), f"exit code {process.exitcode}: {errors.read_text()}"
    if process.exitcode == 143:
        assert "SIGTERM" in errors.read_text()


def fill_disk(folder: Path, errors: Path, random: Random) -> None:
    """Let every file larger than a limit fail to be written."""
    process = start(folder, errors, file_limit=random.randint(100, 300_000))
    process.join(120)
    assert process.exitcode in (0, 1), f"exit code {process.exitcode}: {errors.read_text()}"


def damage(folder: Path, errors: Path, random: Random) -> None:
    """Flip a bit in the last checkpoint: it is refused, or it did not matter."""
    before = tensors_of(folder)
    last = max((folder / "checkpoints").glob("step-*"))
    file = random.choice(sorted(last.iterdir()))
    write_atomically(file, lambda path: path.write_bytes(flip_bit(file.read_bytes(), random)))
    process = start(folder, errors)
    process.join(120)
    text = errors.read_text()
    if process.exitcode == 0:
        found = tensors_of(folder)
        assert all(torch.equal(before[name], found[name]) for name in before), (
            f"{file.name}: other weights, exit code 0"
        )
        return
    assert process.exitcode == 2, f"exit code {process.exitcode}: {text}"
    assert str(last) in text, text
    assert "Traceback" not in text, text
    if "to resume from the previous checkpoint" in text:
        shutil.rmtree(last)
        run_to_end(folder, errors)
        found = tensors_of(folder)
        assert all(torch.equal(before[name], found[name]) for name in before), "other weights from the one before"
