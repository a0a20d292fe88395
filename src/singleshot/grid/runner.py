"""Make the runs of a grid that are not there yet, and keep each result the moment it comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Protocol

from singleshot.grid.engines import Engine, GridWatcher, Outcome
from singleshot.grid.job import Job
from singleshot.grid.store import ResultStore


class Grid(Protocol):
    """What a sweep asks for: its runs, given the results so far."""

    def jobs(self, store: ResultStore) -> list[Job]:
        """Every run known to be needed."""


def run_grid(
    grid: Grid,
    store: ResultStore,
    engine: Engine,
    *,
    watcher: GridWatcher | None = None,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Run until every job has a result or has failed; the failures are returned.

    Some runs are known, or possible, only after others: the grid is asked again after every outcome. A job that failed
    is not begun again in the same call, and what needs it is never begun.
    """
    failed: list[Outcome] = []

    def todo() -> list[Job]:
        return ready(grid.jobs(store), store)

    if not todo():  # an engine may take long to start, or not be there
        return failed
    with closing(engine.run(todo, watcher or GridWatcher())) as outcomes:
        for outcome in map(_of_its_job, outcomes):
            if outcome.result is None:
                failed.append(outcome)
            else:
                store.add(outcome.result)
            on_outcome(outcome)
    return failed


def _of_its_job(outcome: Outcome) -> Outcome:
    """The result of another run says nothing about this one."""
    job, result = outcome.job, outcome.result
    if result is None or result.job.key == job.key:
        return outcome
    return Outcome(job, None, f"its worker answered with the result of run {result.job.key}; has it another version?")


def ready(jobs: Sequence[Job], store: ResultStore) -> list[Job]:
    """Those of the missing runs whose first run, if they have one, is there."""
    return [job for job in store.missing(jobs) if job.first is None or job.first in store]
