"""Grids whose workers are killed at random times: every run ends once, with the result of an undisturbed grid."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import active_children
from random import Random

from singleshot.grid.engine import run_grid
from singleshot.grid.local_engine import LocalEngine
from singleshot.grid.store import ResultStore
from singleshot.paper.methods import job_of
from small_grids import dask_cluster, numbers, tiny
from torture.tally import Tally

JOBS = [job_of(tiny(epochs=3), "vwci", seed=0), job_of(tiny(epochs=2), "baseline", seed=1)]


def killed_workers(tally: Tally) -> None:
    """Kill the processes of a local grid."""

    def worker() -> int | None:
        children = active_children()
        return children[0].pid if children else None

    with tally.case("local processes"):
        stop = killing(worker, tally.random)
        try:
            finished(tally, LocalEngine(tally.folder / "runs", processes=1))
        finally:
            stop.set()


def killed_dask_workers(tally: Tally) -> None:
    """Kill the workers of a dask cluster on this machine."""
    from singleshot.grid.dask_engine import DaskEngine

    with dask_cluster(tally.folder / "dask", workers=1) as cluster, tally.case("dask"):

        def worker() -> int | None:
            return next((nanny.pid for nanny in cluster.workers.values() if nanny.pid), None)

        stop = killing(worker, tally.random)
        try:
            finished(tally, DaskEngine(cluster.scheduler_address, tally.folder / "runs"))
        finally:
            stop.set()


def killing(worker: Callable[[], int | None], random: Random) -> threading.Event:
    """Kill up to two workers at random times, in another thread; set the event to stop it."""
    stop = threading.Event()
    pauses = [random.uniform(0.5, 8) for _ in range(2)]

    def run() -> None:
        for pause in pauses:
            if stop.wait(pause):
                return
            if (pid := worker()) is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    threading.Thread(target=run, daemon=True).start()
    return stop


def finished(tally: Tally, engine: object) -> None:
    """Run the grid, and compare its results with those of the first attempt."""
    store = ResultStore.open(tally.folder / "results")
    failed = run_grid(lambda _: JOBS, store, engine)  # type: ignore[arg-type]
    assert failed == [], f"failed: {failed}"
    reopened = ResultStore.open(store.root)
    assert reopened.skipped == []
    found = json.loads(json.dumps({job.key: numbers(reopened[job]) for job in JOBS}))
    reference = tally.shared.parent / "grid-results.json"
    if not reference.exists():
        workspace = tally.folder / f"undisturbed-{time.monotonic_ns()}"
        expected = {job.key: numbers(job.execute(workspace)) for job in JOBS}
        reference.write_text(json.dumps(expected))
    assert found == json.loads(reference.read_text()), "other results"
