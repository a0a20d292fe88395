from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import Client, KilledWorker, LocalCluster, Scheduler

from singleshot import __version__
from singleshot.cli.main import main
from singleshot.common.environment import describe_environment
from singleshot.common.errors import StoppedError
from singleshot.common.files import FolderNotUsableError, exclusive
from singleshot.grid import dask_engine, engine
from singleshot.grid.dask_engine import DaskEngine
from singleshot.grid.engine import GridWatcher, run_grid
from singleshot.grid.job import Job
from singleshot.grid.store import ResultStore
from singleshot.grid.training_job import TrainingJob
from singleshot.paper import methods
from small_grids import (
    DISTURBED,
    ENDLESS,
    LONG,
    SHORT,
    Recorder,
    assert_complete,
    dask_cluster,
    failing_job,
    is_training,
    small_grid,
    until,
)


@pytest.fixture(scope="module")
def started_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with dask_cluster(tmp_path_factory.mktemp("dask"), workers=2) as started:
        yield started


@pytest.fixture
def cluster(started_cluster: LocalCluster) -> LocalCluster:
    """The cluster, after both workers are connected again."""
    until(lambda: len(scheduler_of(started_cluster).workers) == 2)
    return started_cluster


def scheduler_of(cluster: LocalCluster) -> Scheduler:
    assert isinstance(cluster.scheduler, Scheduler)
    return cluster.scheduler


def process_at(job: Job, cluster: LocalCluster) -> int:
    """The process id of the worker that executes a job."""
    addresses = [
        address
        for address, state in scheduler_of(cluster).workers.items()
        if any(job.key in str(task.key) for task in state.processing)
    ]
    pids = [nanny.pid for nanny in cluster.workers.values() if nanny.worker_address in addresses]
    assert len(pids) == 1
    return int(pids[0])


def kill_worker_of(job: Job, workspace: Path, cluster: LocalCluster) -> None:
    until(lambda: is_training(job, workspace))
    os.kill(process_at(job, cluster), signal.SIGKILL)


def is_free(folder: Path) -> bool:
    try:
        with exclusive(folder):
            return True
    except FolderNotUsableError:
        return False


def test_closing_cancels_running_jobs(cluster: LocalCluster, tmp_path: Path) -> None:
    outcomes = DaskEngine(cluster.scheduler_address, tmp_path).run(lambda: [ENDLESS, SHORT], GridWatcher())
    assert next(outcomes).job == SHORT
    until(lambda: is_training(ENDLESS, tmp_path))
    outcomes.close()
    until(lambda: is_free(tmp_path / ENDLESS.key))
    until(lambda: not scheduler_of(cluster).tasks)


class WorkerStarter(Recorder):
    """Starts a worker when the engine waits for one."""

    def __init__(self, empty: LocalCluster) -> None:
        super().__init__()
        self.empty = empty

    def waiting(self, reason: str) -> None:
        super().waiting(reason)
        self.empty.scale(1)


class SchedulerCloser(Recorder):
    """Closes the scheduler when the engine waits for a worker."""

    def __init__(self, empty: LocalCluster) -> None:
        super().__init__()
        self.empty = empty

    def waiting(self, reason: str) -> None:
        self.empty.close()


def test_a_lost_scheduler_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(dask_engine, "CONNECT_SECONDS", 0.5)
    gone = pytest.raises(StoppedError, match="the dask scheduler is gone")
    with LocalCluster(n_workers=0, dashboard_address=":0") as empty, gone:
        next(DaskEngine(empty.scheduler_address, tmp_path).run(lambda: [SHORT], SchedulerCloser(empty)))
    assert [record.message for record in caplog.records if record.name == "distributed.client"] == []


def test_waiting_for_workers_is_reported(tmp_path: Path) -> None:
    folder = str(tmp_path / "dask")
    with LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address=":0", local_directory=folder) as empty:
        watcher = WorkerStarter(empty)
        (outcome,) = DaskEngine(empty.scheduler_address, tmp_path / "runs").run(lambda: [SHORT], watcher)
        assert outcome.result is not None
        assert watcher.reasons == [f"Waiting for a worker: start one with `dask worker {empty.scheduler_address}`"]


def test_a_failed_job_does_not_stop_the_others(cluster: LocalCluster, tmp_path: Path) -> None:
    wrong, recorder = failing_job(tmp_path), Recorder()
    outcomes = {
        outcome.job.key: outcome
        for outcome in DaskEngine(cluster.scheduler_address, tmp_path / "runs").run(lambda: [wrong, SHORT], recorder)
    }
    assert sorted(recorder.starts) == sorted([wrong.key, SHORT.key])
    assert outcomes[wrong.key].result is None
    assert "no-such-images" in (outcomes[wrong.key].error or "")
    assert outcomes[SHORT.key].result is not None


def test_a_job_waits_until_its_folder_is_free(cluster: LocalCluster, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        with exclusive(tmp_path / SHORT.key):  # like a live worker that lost its connection
            made = pool.submit(
                lambda: list(DaskEngine(cluster.scheduler_address, tmp_path).run(lambda: [SHORT], GridWatcher()))
            )
            until(lambda: any(state.processing for state in scheduler_of(cluster).workers.values()))
            assert not threading.Event().wait(0.5)
            assert not made.done()
        assert made.result()[0].error is None


class UnknownJob(TrainingJob):
    """A job of a class that only the driver has."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return import_module, ("a_module_of_another_version",)


def test_workers_must_have_the_version_and_revision_of_the_driver(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: list[tuple[str, object, str]] = [
        (
            "__version__",
            "99.0",
            r"at tcp://.* has singleshot .*, but the driver has singleshot 99\.0.*; install the same",
        ),
    ]
    if describe_environment()["revision"] is not None:
        message = r"has singleshot .* of revision .*, but the driver has .* of revision another; install"
        changes.append(("describe_environment", lambda: {"revision": "another-dirty"}, message))
    for name, value, message in changes:
        with monkeypatch.context() as patch:
            patch.setattr(dask_engine, name, value)
            with pytest.raises(ValueError, match=message):
                next(DaskEngine(cluster.scheduler_address, tmp_path).run(lambda: [SHORT], GridWatcher()))
    jobs = [UnknownJob(SHORT.recipe)]
    with pytest.raises(
        ValueError, match=r"(?s)cannot execute runs of singleshot .* \(.*deserialization.*install the same"
    ):
        next(DaskEngine(cluster.scheduler_address, tmp_path).run(lambda: jobs, GridWatcher()))


def test_versions_match_as_far_as_revisions_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_engine, "answer_of", lambda *_: ("result", None))
    monkeypatch.setattr(dask_engine, "_cancellation_callback", GridWatcher)
    versions: list[tuple[str, str | None, str]] = [
        ("1.0", "abc", "result"), ("1.0", None, "result"), ("1.0", "xyz", "unusable"), ("2.0", "abc", "unusable"),
        ("2.0", None, "unusable"),
    ]  # fmt: skip
    for number, revision, kind in versions:
        monkeypatch.setattr(dask_engine, "_version", lambda own=(number, revision): own)
        assert dask_engine._work(SHORT, tmp_path, None, ("1.0", "abc"))[0] == kind
        assert dask_engine._work(SHORT, tmp_path, None, ("1.0", None))[0] == (
            "result" if number == "1.0" else "unusable"
        )


def test_a_worker_of_another_version_is_not_used_and_lost_jobs_are_restarted(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    def change_version(number: str) -> None:  # nested, so that it is pickled by value
        from singleshot.grid import dask_engine

        dask_engine.__version__ = number  # type: ignore[attr-defined]

    addresses = sorted(scheduler_of(cluster).workers)
    with Client(cluster.scheduler_address, set_as_default=False) as client:
        client.run(change_version, "98.0", workers=addresses[:1])
    unfit, fit = addresses
    recorder = Recorder()
    outcomes = DaskEngine(cluster.scheduler_address, tmp_path).run(lambda: [SHORT, LONG], recorder)
    with ThreadPoolExecutor() as pool:
        made = pool.submit(lambda: [outcome.job for outcome in outcomes if outcome.result])
        until(lambda: is_training(LONG, tmp_path))
        assert not scheduler_of(cluster).workers[unfit].processing
        os.kill(process_at(LONG, cluster), signal.SIGKILL)
        assert sorted(job.key for job in made.result()) == sorted([LONG.key, SHORT.key])
    assert recorder.starts.count(LONG.key) == 2
    assert [key for key, _ in recorder.losses] == [LONG.key]
    assert fit not in scheduler_of(cluster).workers
    (message,) = (text for text in recorder.reasons if "98.0" in text)
    assert message.startswith(
        f"Not used: the dask worker at {unfit} has singleshot 98.0 of"
        if describe_environment()["revision"]
        else f"Not used: the dask worker at {unfit} has singleshot 98.0, but the driver has singleshot {__version__}"
    )
    with Client(cluster.scheduler_address, set_as_default=False) as client:
        client.run(change_version, __version__, workers=[unfit])


def test_a_scheduler_that_cannot_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_engine, "CONNECT_SECONDS", 0.5)
    for address, message in [
        ("tcp://127.0.0.1:9", r"--scheduler tcp://127\.0\.0\.1:9 cannot be reached \(Timed out.*`dask scheduler`"),
        ("nonsense", r"--scheduler nonsense cannot be reached \(missing port number"),
        ("mail://host:1", r"cannot be reached \(unknown address scheme 'mail'"),
        ("", "needs the address of a scheduler"),
    ]:
        with pytest.raises(ValueError, match=message):
            next(DaskEngine(address, tmp_path).run(lambda: [SHORT], GridWatcher()))


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"pip install 'singleshot\[cluster\]'"):
        next(DaskEngine("tcp://host:8786", tmp_path).run(lambda: [SHORT], GridWatcher()))


def test_a_grid_survives_a_killed_worker(cluster: LocalCluster, tmp_path: Path) -> None:
    workspace, recorder = tmp_path / "runs", Recorder()
    store, on_cluster = ResultStore.open(tmp_path / "results"), DaskEngine(cluster.scheduler_address, workspace)
    with ThreadPoolExecutor() as pool:
        killed = pool.submit(kill_worker_of, DISTURBED, workspace, cluster)
        assert run_grid(small_grid, store, on_cluster, recorder) == []
        killed.result()
    outcomes = [outcome.job.key for outcome in recorder.outcomes]
    assert [key for key, _ in recorder.losses] == [DISTURBED.key]
    assert sorted(recorder.starts) == sorted([*outcomes, DISTURBED.key])
    assert_complete(store, outcomes, tmp_path / "undisturbed")

    again = Recorder()
    assert run_grid(small_grid, store, on_cluster, again) == []
    assert again.starts == []


def test_the_command_makes_a_figure_on_a_cluster(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"epochs": 2, "width": 0.0625, "image_size": 8}.items():
        monkeypatch.setitem(methods._DIGITS, name, value)
    where = ["--engine", "dask", "--scheduler", cluster.scheduler_address, "--output", str(tmp_path)]
    main(["reproduce", "fig4", "--dataset", "digits", "--model", "resnet18", "--seeds", "1", *where, "--json"])
    said = capsys.readouterr()
    assert list(json.loads(said.out)) == ["fig4-digits-resnet18"]
    assert (tmp_path / "figures" / "fig4-digits-resnet18.png").stat().st_size > 10_000
    assert "5 of 5: digits resnet18" in said.err
    assert "No page: the runs are on the machines of the cluster" in said.err
    assert len(ResultStore.open(tmp_path / "results").results) == 5


def test_a_job_that_kills_its_workers_fails(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MAX_ATTEMPTS", 1)
    with ThreadPoolExecutor() as pool:
        killed = pool.submit(kill_worker_of, LONG, tmp_path, cluster)
        outcomes = list(DaskEngine(cluster.scheduler_address, tmp_path).run(lambda: [LONG], GridWatcher()))
        killed.result()
    assert [outcome.result for outcome in outcomes] == [None]
    assert (outcomes[0].error or "").endswith("is gone, 1 times; is there enough memory?")


def test_a_job_that_dask_abandons_fails_even_if_its_worker_is_back(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last: Any = SimpleNamespace(address="tcp://worker")

    def abandoned(*_: object) -> None:
        raise KilledWorker("task", last, 3)

    monkeypatch.setattr(dask_engine, "_work", abandoned)
    outcomes = list(DaskEngine(cluster.scheduler_address, tmp_path).run(lambda: [SHORT], GridWatcher()))
    assert "is gone, 3 times; is there enough memory?" in (outcomes[0].error or "")
