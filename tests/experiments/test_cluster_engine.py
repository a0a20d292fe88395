from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from distributed import LocalCluster, Scheduler

from singleshot.experiments.engines import GridWatcher, cluster as cluster_engine
from singleshot.experiments.engines.cluster import DaskEngine
from singleshot.experiments.grid import run_grid
from singleshot.experiments.job import Job
from singleshot.experiments.store import ResultStore
from singleshot.files import FolderNotUsableError, exclusive
from small_grids import (
    ENDLESS,
    LONG,
    SHORT,
    Listener,
    TwoRuns,
    failing_job,
    is_under_way,
    undisturbed_worth,
    until,
    worth,
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A scheduler here and two worker processes, of which a dead one is replaced."""
    with LocalCluster(
        processes=True,
        n_workers=2,
        threads_per_worker=1,
        dashboard_address=":0",
        local_directory=str(tmp_path_factory.mktemp("dask")),
    ) as started:
        yield started


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the runs are worth when they are simply made, by key."""
    return undisturbed_worth(tmp_path_factory.mktemp("undisturbed"))


def scheduler_of(cluster: LocalCluster) -> Scheduler:
    assert isinstance(cluster.scheduler, Scheduler)
    return cluster.scheduler


def process_at(job: Job, cluster: LocalCluster) -> int:
    """The process id of the worker that is at a job."""
    at_it = [
        address
        for address, state in scheduler_of(cluster).workers.items()
        if any(job.key in str(task.key) for task in state.processing)
    ]
    pids = [nanny.pid for nanny in cluster.workers.values() if nanny.worker_address in at_it]
    assert len(pids) == 1
    return int(pids[0])


def kill_worker_of(job: Job, workspace: Path, cluster: LocalCluster) -> None:
    until(lambda: is_under_way(job, workspace))
    os.kill(process_at(job, cluster), signal.SIGKILL)


def is_free(folder: Path) -> bool:
    try:
        with exclusive(folder):
            return True
    except FolderNotUsableError:
        return False


def test_closing_stops_what_is_under_way(cluster: LocalCluster, tmp_path: Path) -> None:
    outcomes = DaskEngine(cluster.scheduler_address, tmp_path).run([ENDLESS, SHORT], GridWatcher())
    assert next(outcomes).job == SHORT
    until(lambda: is_under_way(ENDLESS, tmp_path))
    outcomes.close()
    until(lambda: is_free(tmp_path / ENDLESS.key))
    until(lambda: not scheduler_of(cluster).tasks)


class Impatient(GridWatcher):
    """Starts a worker where none is there."""

    def __init__(self, empty: LocalCluster) -> None:
        self.empty = empty
        self.said: list[str] = []

    def waiting(self, reason: str) -> None:
        self.said.append(reason)
        self.empty.scale(1)


def test_a_cluster_without_workers_is_waited_for_and_it_is_said(tmp_path: Path) -> None:
    folder = str(tmp_path / "dask")
    with LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address=":0", local_directory=folder) as empty:
        watcher = Impatient(empty)
        (outcome,) = DaskEngine(empty.scheduler_address, tmp_path / "runs").run([SHORT], watcher)
        assert outcome.result is not None
        assert watcher.said == [f"the cluster has no worker: start one with `dask worker {empty.scheduler_address}`"]


def test_a_job_that_fails_says_why_and_the_others_go_on(cluster: LocalCluster, tmp_path: Path) -> None:
    wrong, listener = failing_job(tmp_path), Listener()
    engine = DaskEngine(cluster.scheduler_address, tmp_path / "runs")
    outcomes = {outcome.job.key: outcome for outcome in engine.run([wrong, SHORT], listener)}
    assert sorted(listener.begun) == sorted([wrong.key, SHORT.key])
    assert outcomes[wrong.key].result is None
    assert "no-such-images" in (outcomes[wrong.key].error or "")
    assert outcomes[SHORT.key].result is not None


def test_a_run_that_another_process_still_holds_is_waited_for(cluster: LocalCluster, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        with exclusive(tmp_path / SHORT.key):  # as a worker does that lost its connection but lives
            made = pool.submit(
                lambda: list(DaskEngine(cluster.scheduler_address, tmp_path).run([SHORT], GridWatcher()))
            )
            until(lambda: any(state.processing for state in scheduler_of(cluster).workers.values()))
            assert not threading.Event().wait(0.5)
            assert not made.done()
        assert made.result()[0].error is None


def test_workers_must_have_the_version_of_the_driver(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_engine, "__version__", "99.0")
    with pytest.raises(ValueError, match=r"worker at tcp://.* has singleshot .*, this is 99\.0: install the same"):
        next(DaskEngine(cluster.scheduler_address, tmp_path).run([SHORT], GridWatcher()))


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("tcp://127.0.0.1:9", r"--scheduler tcp://127\.0\.0\.1:9 cannot be reached \(Timed out.*`dask scheduler`"),
        ("nonsense", r"--scheduler nonsense cannot be reached \(missing port number"),
        ("mail://host:1", r"cannot be reached \(unknown address scheme 'mail'"),
        ("", "needs the address of its scheduler"),
    ],
)
def test_a_scheduler_that_cannot_be_reached(
    address: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_engine, "CONNECT_SECONDS", 0.5)
    threads = threading.active_count()
    with pytest.raises(ValueError, match=message):
        next(DaskEngine(address, tmp_path).run([SHORT], GridWatcher()))
    until(lambda: threading.active_count() <= threads)


def test_the_extra_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"pip install 'singleshot\[cluster\]'"):
        next(DaskEngine("tcp://host:8786", tmp_path).run([SHORT], GridWatcher()))


def test_the_grid_survives_a_killed_worker(
    cluster: LocalCluster, undisturbed: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    grid, workspace, listener = TwoRuns(), tmp_path / "runs", Listener()
    store, engine = ResultStore.open(tmp_path / "results"), DaskEngine(cluster.scheduler_address, workspace)
    outcomes: list[str] = []
    with ThreadPoolExecutor() as pool:
        killed = pool.submit(kill_worker_of, LONG, workspace, cluster)
        failed = run_grid(grid, store, engine, watcher=listener, on_outcome=lambda one: outcomes.append(one.job.key))
        killed.result()
    assert failed == []
    assert sorted(outcomes) == sorted(undisturbed)  # none lost, none twice
    assert {key for key, _ in listener.lost_jobs} == {LONG.key}
    assert sorted(path.stem for path in store.folder.rglob("*.json")) == sorted(undisturbed)
    reopened = ResultStore.open(store.folder)
    assert {key: worth(result) for key, result in reopened.results.items()} == undisturbed

    again = Listener()
    assert run_grid(grid, reopened, engine, watcher=again) == []
    assert again.begun == []


def test_a_job_that_kills_its_workers_is_given_up(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_of(cluster), "allowed_failures", 0)
    with ThreadPoolExecutor() as pool:
        killed = pool.submit(kill_worker_of, LONG, tmp_path, cluster)
        outcomes = list(DaskEngine(cluster.scheduler_address, tmp_path).run([LONG], GridWatcher()))
        killed.result()
    assert [outcome.result for outcome in outcomes] == [None]
    assert "its workers died, 1 times" in (outcomes[0].error or "")
