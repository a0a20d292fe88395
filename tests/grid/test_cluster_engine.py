from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from distributed import LocalCluster, Scheduler

from singleshot import __version__
from singleshot.cli.main import main
from singleshot.common.environment import describe_environment
from singleshot.common.errors import StoppedError
from singleshot.common.files import FolderNotUsableError, exclusive
from singleshot.grid.engines import GridWatcher, scheduler, scheduler as workers
from singleshot.grid.engines.cluster import DaskEngine
from singleshot.grid.engines.scheduler import Version
from singleshot.grid.job import Job
from singleshot.grid.runner import run_grid
from singleshot.grid.store import ResultStore
from singleshot.paper import methods as scales
from small_grids import (
    DISTURBED,
    ENDLESS,
    GRID,
    LONG,
    SHORT,
    Listener,
    assert_whole,
    failing_job,
    is_under_way,
    until,
)


@pytest.fixture(scope="module")
def started_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A scheduler here and two worker processes, of which a dead one is replaced."""
    with LocalCluster(
        processes=True,
        n_workers=2,
        threads_per_worker=1,
        dashboard_address=":0",
        local_directory=str(tmp_path_factory.mktemp("dask")),
    ) as started:
        yield started


@pytest.fixture
def cluster(started_cluster: LocalCluster) -> LocalCluster:
    """With both workers, whatever the test before did to them."""
    until(lambda: len(scheduler_of(started_cluster).workers) == 2)
    return started_cluster


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
    outcomes = DaskEngine(cluster.scheduler_address, tmp_path).run(lambda: [ENDLESS, SHORT], GridWatcher())
    assert next(outcomes).job == SHORT
    until(lambda: is_under_way(ENDLESS, tmp_path))
    outcomes.close()
    until(lambda: is_free(tmp_path / ENDLESS.key))
    until(lambda: not scheduler_of(cluster).tasks)


class Impatient(Listener):
    """Starts a worker where none is there."""

    def __init__(self, empty: LocalCluster) -> None:
        super().__init__()
        self.empty = empty

    def waiting(self, reason: str) -> None:
        super().waiting(reason)
        self.empty.scale(1)


class Saboteur(Listener):
    """Ends the scheduler when its workers are waited for."""

    def __init__(self, empty: LocalCluster) -> None:
        super().__init__()
        self.empty = empty

    def waiting(self, reason: str) -> None:
        self.empty.close()


def test_a_scheduler_that_goes_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(scheduler, "CONNECT_SECONDS", 0.5)
    gone = pytest.raises(StoppedError, match="the dask scheduler is gone")
    with LocalCluster(n_workers=0, dashboard_address=":0") as empty, gone:
        next(DaskEngine(empty.scheduler_address, tmp_path).run(lambda: [SHORT], Saboteur(empty)))
    assert [record.message for record in caplog.records if record.name == "distributed.client"] == []
    assert logging.getLogger("distributed.client").isEnabledFor(logging.ERROR)


def test_a_cluster_without_workers_is_waited_for_and_it_is_said(tmp_path: Path) -> None:
    folder = str(tmp_path / "dask")
    with LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address=":0", local_directory=folder) as empty:
        watcher = Impatient(empty)
        (outcome,) = DaskEngine(empty.scheduler_address, tmp_path / "runs").run(lambda: [SHORT], watcher)
        assert outcome.result is not None
        assert watcher.said == [f"Waiting for a worker: start one with `dask worker {empty.scheduler_address}`"]


def test_a_job_that_fails_says_why_and_the_others_go_on(cluster: LocalCluster, tmp_path: Path) -> None:
    wrong, listener = failing_job(tmp_path), Listener()
    engine = DaskEngine(cluster.scheduler_address, tmp_path / "runs")
    outcomes = {outcome.job.key: outcome for outcome in engine.run(lambda: [wrong, SHORT], listener)}
    assert sorted(listener.begun) == sorted([wrong.key, SHORT.key])
    assert outcomes[wrong.key].result is None
    assert "no-such-images" in (outcomes[wrong.key].error or "")
    assert outcomes[SHORT.key].result is not None


def test_a_run_that_another_process_still_holds_is_waited_for(cluster: LocalCluster, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        with exclusive(tmp_path / SHORT.key):  # as a worker does that lost its connection but lives
            made = pool.submit(
                lambda: list(DaskEngine(cluster.scheduler_address, tmp_path).run(lambda: [SHORT], GridWatcher()))
            )
            until(lambda: any(state.processing for state in scheduler_of(cluster).workers.values()))
            assert not threading.Event().wait(0.5)
            assert not made.done()
        assert made.result()[0].error is None


def test_workers_must_have_the_version_of_the_driver(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "__version__", "99.0")
    with pytest.raises(ValueError, match=r"worker at tcp://.* has singleshot .*, this is singleshot 99\.0.*: install"):
        next(DaskEngine(cluster.scheduler_address, tmp_path).run(lambda: [SHORT], GridWatcher()))


@pytest.mark.skipif(describe_environment()["revision"] is None, reason="no checkout")
def test_workers_must_have_the_revision_of_the_driver(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "describe_environment", lambda: {"revision": "another-dirty"})
    with pytest.raises(ValueError, match=r"has singleshot .* of revision .*, this is .* of revision another: install"):
        next(DaskEngine(cluster.scheduler_address, tmp_path).run(lambda: [SHORT], GridWatcher()))


def test_a_worker_that_does_not_understand_the_question_is_of_another_version(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = os.getpid()

    def revision() -> str:
        if os.getpid() != driver:
            raise ModuleNotFoundError("as in a commit that had no such question")
        return "mine"

    monkeypatch.setattr(workers, "_revision", revision)
    with pytest.raises(ValueError, match=r"of revision unknown, this is .* of revision mine: install the same"):
        next(DaskEngine(cluster.scheduler_address, tmp_path).run(lambda: [SHORT], GridWatcher()))


@pytest.mark.parametrize(
    ("number", "revision", "fits"),
    [("1.0", "abc", True), ("1.0", None, True), ("1.0", "xyz", False), ("2.0", "abc", False), (None, None, False)],
)
def test_which_versions_fit(number: str | None, revision: str | None, fits: bool) -> None:
    theirs, mine = Version(number, revision), Version("1.0", "abc")
    assert (theirs.fits(mine), mine.fits(theirs)) == (fits, fits)
    assert theirs.fits(Version("1.0")) == (number == "1.0")


def test_a_worker_of_another_version_is_left_out_and_what_the_others_lose_is_begun_again(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfit, fit = scheduler_of(cluster).workers
    asked = workers._versions
    monkeypatch.setattr(workers, "_versions", lambda client: {**asked(client), unfit: Version("98.0")})
    listener = Listener()
    outcomes = DaskEngine(cluster.scheduler_address, tmp_path).run(lambda: [LONG, SHORT], listener)
    with ThreadPoolExecutor() as pool:
        made = pool.submit(lambda: [outcome.job for outcome in outcomes if outcome.result])
        until(lambda: is_under_way(LONG, tmp_path))
        assert listener.begun == [LONG.key]  # one worker, one job
        assert not scheduler_of(cluster).workers[unfit].processing
        os.kill(process_at(LONG, cluster), signal.SIGKILL)
        assert made.result() == [LONG, SHORT]
    assert listener.begun == [LONG.key, LONG.key, SHORT.key]
    assert [key for key, _ in listener.lost_jobs] == [LONG.key]
    assert fit not in scheduler_of(cluster).workers
    (said,) = (text for text in listener.said if "98.0" in text)
    assert said.startswith(
        f"Left out: the dask worker at {unfit} has singleshot 98.0, this is singleshot {__version__}"
    )
    assert said.endswith(": install the same on it")


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
    monkeypatch.setattr(scheduler, "CONNECT_SECONDS", 0.5)
    threads = threading.active_count()
    with pytest.raises(ValueError, match=message):
        next(DaskEngine(address, tmp_path).run(lambda: [SHORT], GridWatcher()))
    until(lambda: threading.active_count() <= threads)


def test_the_extra_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"pip install 'singleshot\[cluster\]'"):
        next(DaskEngine("tcp://host:8786", tmp_path).run(lambda: [SHORT], GridWatcher()))


def test_the_grid_survives_a_killed_worker(cluster: LocalCluster, tmp_path: Path) -> None:
    workspace, listener = tmp_path / "runs", Listener()
    outcomes: list[str] = []
    store, engine = ResultStore.open(tmp_path / "results"), DaskEngine(cluster.scheduler_address, workspace)
    with ThreadPoolExecutor() as pool:
        killed = pool.submit(kill_worker_of, DISTURBED, workspace, cluster)
        failed = run_grid(GRID, store, engine, watcher=listener, on_outcome=lambda one: outcomes.append(one.job.key))
        killed.result()
    assert failed == []
    assert {key for key, _ in listener.lost_jobs} == {DISTURBED.key}
    assert sorted(listener.begun) == sorted(outcomes)
    assert_whole(store, outcomes, tmp_path / "undisturbed")

    again = Listener()
    assert run_grid(GRID, store, engine, watcher=again) == []
    assert again.begun == []


def test_the_command_makes_a_figure_on_a_cluster(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"epochs": 2, "width": 0.0625, "image_size": 8}.items():
        monkeypatch.setitem(scales._DIGITS, name, value)
    where = ["--engine", "dask", "--scheduler", cluster.scheduler_address, "--output", str(tmp_path)]
    main(["reproduce", "fig4", "--dataset", "digits", "--model", "resnet18", "--seeds", "1", *where, "--json"])
    said = capsys.readouterr()
    assert list(json.loads(said.out)) == ["fig4-digits-resnet18"]
    assert (tmp_path / "figures" / "fig4-digits-resnet18.png").stat().st_size > 10_000
    assert "5 of 5: digits resnet18" in said.err
    assert "No page: the runs are on the machines of the cluster" in said.err
    assert len(ResultStore.open(tmp_path / "results").results) == 5


def test_a_job_that_kills_its_workers_is_given_up(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_of(cluster), "allowed_failures", 0)
    with ThreadPoolExecutor() as pool:
        killed = pool.submit(kill_worker_of, LONG, tmp_path, cluster)
        outcomes = list(DaskEngine(cluster.scheduler_address, tmp_path).run(lambda: [LONG], GridWatcher()))
        killed.result()
    assert [outcome.result for outcome in outcomes] == [None]
    assert "its workers died, 1 times" in (outcomes[0].error or "")
