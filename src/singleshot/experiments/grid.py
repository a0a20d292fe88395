"""Make the runs of a grid that are not there yet, and keep each result the moment it comes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from singleshot.experiments.engines import Engine, GridWatcher, Outcome
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

    Some runs are known, or possible, only after others: the grid is asked again until nothing new is ready. A job that
    failed is not begun again in the same call, and what needs it is never begun.
    """
    failed: dict[str, Outcome] = {}
    while todo := [job for job in ready(grid.jobs(store), store) if job.key not in failed]:
        outcomes = engine.run(todo, watcher or GridWatcher())
        with closing(outcomes):
            for outcome in outcomes:
                if outcome.result is None:
                    failed[outcome.job.key] = outcome
                else:
                    store.add(outcome.result)
                on_outcome(outcome)
    return list(failed.values())
