"""Make the runs of a grid that are not there yet, and keep each result the moment it comes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from singleshot.experiments.engines import Engine, GridWatcher, Outcome
from singleshot.experiments.job import Job
from singleshot.experiments.plan import Grid, ready
from singleshot.experiments.store import ResultStore


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
