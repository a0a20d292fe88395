"""Torture the library for a while: ``make torture MINUTES=20``, or from the root of the repository

    PYTHONPATH=src:tests:tests/training python -m torture.run --minutes 2 --seed 7 --only threads --markdown

Every attempt of a scenario runs in a process of its own, with a seed that is printed if it fails; a case fails if it
gives a wrong result, another error than a message for the user, a crash or no answer. The exit code is 1 if one did.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

import torch

from singleshot.common.environment import describe_environment
from torture import documents, downloads, files, grids, guided, images, pages, permissions, pickles, threads, training
from torture.tally import Tally

SCENARIOS: dict[str, Callable[[Tally], None]] = {
    "threads": threads.sampling_threads,
    "training": training.interrupted_training,
    "predictions": files.damaged_predictions,
    "flipped bits": files.flipped_bits,
    "JSON and YAML": documents.damaged_documents,
    "pickles": pickles.pickled_files,
    "images": images.damaged_images,
    "downloads": downloads.misbehaving_servers,
    "HTML": pages.hostile_names,
    "read-only": permissions.read_only_folders,
    "grids": grids.killed_workers,
    "dask": grids.killed_dask_workers,
}
if guided.IS_INSTALLED:
    SCENARIOS["guided fuzzing"] = guided.guided_fuzzing
TIME_LIMIT = 300.0  # seconds of an attempt
PROCESSES = multiprocessing.get_context("fork")


@dataclass
class Score:
    """The cases of a scenario."""

    attempts: int = 0
    seconds: float = 0.0
    tried: int = 0
    failures: list[str] = field(default_factory=list)


def attempt(name: str, seed: str, folder: Path, score: Score) -> None:
    """Run one attempt in a process of its own, and end it with all of its children if it takes too long."""
    own = Path(tempfile.mkdtemp(dir=folder, prefix="attempt-"))
    shared = folder / name.replace(" ", "-")
    shared.mkdir(exist_ok=True)
    ours, theirs = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=_attempt, args=(name, Tally(Random(seed), own, shared), theirs))
    started = time.monotonic()
    process.start()
    theirs.close()
    tried, failures = 1, ["no answer"]
    with suppress(EOFError):
        if ours.poll(TIME_LIMIT):
            tried, failures = ours.recv()
        else:
            failures = [f"no answer after {TIME_LIMIT:g} seconds"]
    if failures and failures[0].startswith("no answer"):
        process.join(1)
        case = own / "case.txt"
        failures = [f"{failures[0]}, exit code {process.exitcode}, in {case.read_text() if case.exists() else 'it'}"]
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid or 0, signal.SIGKILL)  # the group that the attempt made for itself
    process.join()
    score.attempts += 1
    score.seconds += time.monotonic() - started
    score.tried += tried
    for failure in failures:
        score.failures.append(failure)
        print(f"FAILED {name}, seed {seed!r}: {failure}\n", flush=True)
    if not failures:
        shutil.rmtree(own, ignore_errors=True)


def _attempt(name: str, tally: Tally, connection: Connection) -> None:
    os.setpgid(0, 0)
    torch.set_num_threads(1)
    os.environ |= {"no_proxy": "127.0.0.1", "SINGLESHOT_CACHE": str(tally.shared / "cache")}
    sys.stdout = sys.stderr = (tally.folder / "output.txt").open("w", encoding="utf-8", errors="replace")
    with tally.case("setup"):
        SCENARIOS[name](tally)
    tally.tried -= 1
    connection.send((tally.tried, tally.failures))


def table(scores: dict[str, Score], seed: str, minutes: float) -> str:
    """The result as a Markdown table."""
    about = describe_environment()
    lines = [
        f"`make torture MINUTES={minutes:g} SEED={seed}` at revision {about['revision']}, "
        f"Python {platform.python_version()}, torch {about['torch']}, {about['processor']}:",
        "",
        "| scenario | attempts | seconds | tried | survived | failed |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    total = Score()
    for name, score in scores.items():
        lines.append(_row(name, score))
        total.attempts, total.seconds = total.attempts + score.attempts, total.seconds + score.seconds
        total.tried, total.failures = total.tried + score.tried, total.failures + score.failures
    return "\n".join([*lines, _row("**all**", total)])


def _row(name: str, score: Score) -> str:
    failed = len(score.failures)
    figures = (score.attempts, round(score.seconds), score.tried, max(0, score.tried - failed), failed)
    return f"| {name} | {' | '.join(f'{figure:,}' for figure in figures)} |"


def main() -> None:
    """Share the time evenly among the scenarios; each is tried at least once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", default=str(time.time_ns() % 10**6))
    parser.add_argument("--only", choices=SCENARIOS, action="append")
    parser.add_argument("--markdown", type=Path, help="write the table to this file as well")
    options = parser.parse_args()
    scores = {name: Score() for name in options.only or SCENARIOS}
    print(f"torture for {options.minutes:g} minutes, seed {options.seed}", flush=True)
    if not guided.IS_INSTALLED:
        print("without coverage-guided fuzzing, which needs atheris: pip install 'singleshot[fuzz]'", flush=True)
    deadline = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="torture-", ignore_cleanup_errors=True) as folder:
        while time.monotonic() < deadline or any(not score.attempts for score in scores.values()):
            name = min(scores, key=lambda name: scores[name].seconds)
            attempt(name, f"{options.seed}/{name}/{scores[name].attempts}", Path(folder), scores[name])
    text = table(scores, options.seed, options.minutes)
    print(text)
    if options.markdown is not None:
        options.markdown.write_text(text + "\n", encoding="utf-8")
    sys.exit(any(score.failures for score in scores.values()))


if __name__ == "__main__":
    main()
