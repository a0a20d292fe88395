"""Grids of runs so small that a test can make them, and what their results are compared by."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from singleshot.grid.engines import GridWatcher
from singleshot.grid.execution import execute
from singleshot.grid.job import Job, job_of
from singleshot.grid.result import Result
from singleshot.grid.store import ResultStore
from singleshot.paper.exhibits import Grid
from singleshot.paper.methods import base_recipe
from singleshot.training.recipe import Recipe
from singleshot.training.run import METRICS


def tiny(epochs: int = 2, **changes: Any) -> Recipe:
    """What the methods of a grid share: a second of work."""
    base = base_recipe("small", dataset="digits", model="resnet18")
    return replace(base, **{"width": 0.0625, "epochs": epochs, "evaluate_every": epochs, **changes})


SHORT = job_of(tiny(), "baseline", seed=0)
LONG = job_of(tiny(epochs=25), "baseline", seed=1)
"""Seconds of work, so that there is time to disturb it."""
ENDLESS = job_of(tiny(epochs=100_000), "baseline", seed=0)


def failing_job(tmp_path: Path) -> Job:
    """One whose images are nowhere."""
    return job_of(tiny(dataset=str(tmp_path / "no-such-images")), "baseline", seed=0)


GRID = Grid(("table3",), (tiny(epochs=4, image_size=8),), seeds=1)
"""Eighteen runs, of which two are possible, or known, only after others."""
DISTURBED = job_of(GRID.bases[0], "vwci", seed=0)
"""That of them which takes longest, so that there is time to disturb it."""


def assert_whole(store: ResultStore, outcomes: list[str], workspace: Path) -> None:
    """Every run of the grid came to its end once, is on disk, and the disturbed one is what it would have been."""
    assert len(outcomes) == 18
    assert sorted(outcomes) == sorted(job.key for job in GRID.jobs(store))  # none lost, none twice
    reopened = ResultStore.open(store.folder)
    assert reopened.skipped == []
    assert sorted(reopened.results) == sorted(outcomes)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert worth(reopened[DISTURBED]) == worth(execute(DISTURBED, workspace))
    finally:
        torch.set_num_threads(threads)


def worth(result: Result) -> dict[str, Any]:
    """All of a result but where and how fast it was made."""
    content = result.to_dict()
    del content["seconds"], content["cpu_seconds"], content["environment"], content["measured_in"]
    return content


def is_under_way(job: Job, workspace: Path) -> bool:
    """Whether the run of a job has done some steps."""
    metrics = workspace / job.key / METRICS
    return metrics.exists() and metrics.stat().st_size > 0


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for something that must happen."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it did not happen within {seconds} s")
        time.sleep(0.01)


class Listener(GridWatcher):
    """Remembers what it hears."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.lost_jobs: list[tuple[str, str]] = []
        self.said: list[str] = []

    def started(self, job: Job) -> None:
        self.begun.append(job.key)

    def lost(self, job: Job, reason: str) -> None:
        self.lost_jobs.append((job.key, reason))

    def waiting(self, reason: str) -> None:
        self.said.append(reason)
