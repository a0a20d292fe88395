"""Grids of runs that take seconds, and helpers to compare their results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from singleshot.grid.engine import GridWatcher, Outcome
from singleshot.grid.job import Job, Result
from singleshot.grid.store import ResultStore
from singleshot.grid.training_job import TrainingJob
from singleshot.paper.methods import base_recipe, job_of
from singleshot.training.recipe import Recipe
from singleshot.training.run import METRICS_LOG

if TYPE_CHECKING:
    from distributed import LocalCluster


def tiny(epochs: int = 2, **changes: Any) -> Recipe:
    """A shared recipe with about a second of training."""
    base = base_recipe("small", dataset="digits", model="resnet18")
    return replace(base, **{"width": 0.0625, "epochs": epochs, "evaluate_every": epochs, "image_size": 8, **changes})


SHORT = job_of(tiny(), "baseline", seed=0)
LONG = job_of(tiny(epochs=25), "baseline", seed=1)
"""Long enough to be interrupted."""
ENDLESS = job_of(tiny(epochs=100_000), "baseline", seed=0)
DISTURBED = job_of(tiny(epochs=12), "vwci", seed=0)


@contextmanager
def dask_cluster(folder: Path, workers: int) -> Iterator[LocalCluster]:
    """A scheduler in this process and worker processes, which are replaced when they die."""
    import dask
    from distributed import LocalCluster

    # By default, dask checks 15 s after a worker died whether its replacement is connected. If a test has just killed
    # that one as well, dask removes the worker for good.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        LocalCluster(
            processes=True,
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=":0",
            local_directory=str(folder),
        ) as started,
    ):
        yield started


def failing_job(tmp_path: Path) -> TrainingJob:
    """A job without images."""
    return job_of(tiny(dataset=str(tmp_path / "no-such-images")), "baseline", seed=0)


def small_grid(store: ResultStore) -> list[TrainingJob]:
    """Three runs, one of which requires another."""
    return [job_of(tiny(), "vwci_star", seed=0), DISTURBED, SHORT]


def assert_complete(store: ResultStore, outcomes: list[str], workspace: Path) -> None:
    """Every run ended once and is on disk, and the interrupted run has the result of an uninterrupted one."""
    assert sorted(outcomes) == sorted(job.key for job in small_grid(store))
    reopened = ResultStore.open(store.root)
    assert reopened.skipped == []
    assert sorted(reopened.results) == sorted(outcomes)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert numbers(reopened[DISTURBED]) == numbers(DISTURBED.execute(workspace))
    finally:
        torch.set_num_threads(threads)


def numbers(result: Result) -> dict[str, Any]:
    """Everything in a result except its times and environments."""
    content = result.to_dict()
    del content["seconds"], content["cpu_seconds"], content["environment"], content["measured_in"]
    return content


def is_training(job: Job, workspace: Path) -> bool:
    """Whether the run of a job has logged some steps."""
    metrics = workspace / job.key / METRICS_LOG
    return metrics.exists() and metrics.stat().st_size > 0


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the condition was not met within {seconds} s")
        time.sleep(0.01)


class Recorder(GridWatcher):
    """Records the callbacks."""

    def __init__(self) -> None:
        self.starts: list[str] = []
        self.losses: list[tuple[str, str]] = []
        self.reasons: list[str] = []
        self.outcomes: list[Outcome] = []

    def started(self, job: Job) -> None:
        self.starts.append(job.key)

    def lost(self, job: Job, reason: str) -> None:
        self.losses.append((job.key, reason))

    def waiting(self, reason: str) -> None:
        self.reasons.append(reason)

    def finished(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
