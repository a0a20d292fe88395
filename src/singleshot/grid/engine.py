"""Running a grid: the loop over its jobs, and the interface of the engines that execute them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from singleshot.common.errors import StoppedError
from singleshot.grid.job import Job, Result
from singleshot.grid.store import ResultStore
from singleshot.training.display import Callback

MAX_ATTEMPTS = 3
"""Number of times a job is started when its worker dies."""


@dataclass(frozen=True)
class Outcome:
    """The end of a job: its result, or an error message."""

    job: Job
    result: Result | None = field(repr=False)
    error: str | None = None

    @classmethod
    def from_answer(cls, job: Job, answer: tuple[str, Any]) -> Outcome:
        """Return the outcome from the answer of a worker: ("result", plain values) or ("error", message)."""
        kind, content = answer
        if kind == "error":
            return cls(job, None, content)
        result = Result.from_dict(content, type(job), source=f"run {job.key}")
        if result.job.key != job.key:
            return cls(job, None, f"its worker returned the result of run {result.job.key}; do the versions differ?")
        return cls(job, result)


def answer_of(job: Job, workspace: Path, data_root: Path | None, callback: Callback) -> tuple[str, Any]:
    """Execute a job in a worker and return its answer. Only a StoppedError with its own exit code is raised."""
    torch.set_num_threads(1)  # for identical results; two OpenMP teams on two cores are also slower than two threads
    try:
        return "result", job.execute(workspace, data_root=data_root, callback=callback).to_dict()
    except StoppedError as stopped:
        if stopped.exit_code != 1:
            raise
        return "error", str(stopped)
    except (ValueError, OSError) as error:
        return "error", str(error)
    except Exception as error:  # a retry would not help
        return "error", f"{type(error).__name__}: {error}"


ReadyJobs = Callable[[], Sequence[Job]]
"""Returns the jobs that can start now, in order; a finished job may make others ready."""


class GridWatcher:
    """Callbacks for the progress of a grid; by default they do nothing."""

    def started(self, job: Job) -> None:
        """A worker has started this job."""

    def lost(self, job: Job, reason: str) -> None:
        """The worker of this job died; the job will be restarted."""

    def waiting(self, reason: str) -> None:
        """Some workers or all of them cannot be used."""

    def finished(self, outcome: Outcome) -> None:
        """A job has ended."""


class JobQueue:
    """Hands out every ready job once, and again if its worker dies."""

    def __init__(self, ready_jobs: ReadyJobs, watcher: GridWatcher) -> None:
        self._ready_jobs, self._watcher = ready_jobs, watcher
        self._attempts: Counter[str] = Counter()  # by key
        self._retries: list[Job] = []

    def upcoming(self) -> Job | None:
        """Return the next job without taking it."""
        new = (job for job in self._ready_jobs() if job.key not in self._attempts)
        return next(iter(self._retries), None) or next(new, None)

    def take(self) -> Job | None:
        """Return the next job, which the caller starts."""
        job = self.upcoming()
        if job is not None:
            del self._retries[:1]
            self._attempts[job.key] += 1
            self._watcher.started(job)
        return job

    def put_back(self, job: Job) -> None:
        """Queue a job that was taken but not executed."""
        self._attempts[job.key] -= 1
        self._retries.append(job)

    def retry(self, job: Job, reason: str) -> Outcome | None:
        """Queue a job whose worker died; after `MAX_ATTEMPTS`, return its failure instead."""
        if self._attempts[job.key] >= MAX_ATTEMPTS:
            return Outcome(job, None, f"{reason}, {MAX_ATTEMPTS} times; is there enough memory?")
        self._watcher.lost(job, reason)
        self._retries.append(job)
        return None


class Engine(Protocol):
    """Executes jobs."""

    def run(self, ready_jobs: ReadyJobs, watcher: GridWatcher) -> Generator[Outcome, None, None]:
        """Yield the outcome of each job, until no job is ready; closing the generator stops all workers.

        Each job is started once, and again only if its worker dies. ``ready_jobs`` is called after every outcome.
        """
        ...


Grid = Callable[[ResultStore], Sequence[Job]]
"""Returns every job that is known to be needed, given the results in the store."""


def run_grid(grid: Grid, store: ResultStore, engine: Engine, watcher: GridWatcher | None = None) -> list[Outcome]:
    """Execute every job without a result, store each result when it arrives, and return the failed outcomes.

    A failed job is not retried in the same call, and jobs that require it are not started.
    """
    watcher = watcher or GridWatcher()
    failed: list[Outcome] = []

    def ready_jobs() -> list[Job]:
        return [job for job in store.missing(grid(store)) if job.requires is None or job.requires in store]

    if not ready_jobs():  # starting an engine can be slow, or fail
        return failed
    with closing(engine.run(ready_jobs, watcher)) as outcomes:
        for outcome in outcomes:
            if outcome.result is None:
                failed.append(outcome)
            else:
                store.add(outcome.result)
            watcher.finished(outcome)
    return failed
