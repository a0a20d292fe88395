from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import active_children
from pathlib import Path

import pytest

from singleshot.experiments.engines import LocalEngine
from singleshot.experiments.engines.engine import MOST_TRIES
from singleshot.experiments.grid import run_grid
from singleshot.experiments.job import Job, job_of
from singleshot.experiments.store import ResultStore
from singleshot.files import is_held
from singleshot.training.run import Run
from small_grids import (
    ENDLESS,
    LONG,
    SHORT,
    Listener,
    TwoRuns,
    failing_job,
    is_under_way,
    tiny,
    undisturbed_worth,
    until,
    worth,
)

OTHER = job_of(tiny(), "baseline", seed=2)


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    assert active_children() == []


class DeadlyJob(Job):
    """Ends the process that receives it."""

    def __reduce__(self) -> tuple[Callable[[int], object], tuple[int]]:
        return os._exit, (7,)


def kill_the_worker() -> None:
    (worker,) = active_children()
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)


def test_the_grid_survives_a_killed_worker(tmp_path: Path) -> None:
    workspace, listener, outcomes = tmp_path / "runs", Listener(), []
    store, engine = ResultStore.open(tmp_path / "results"), LocalEngine(workspace, processes=1)

    def kill_in_the_middle() -> None:
        until(lambda: is_under_way(LONG, workspace))
        kill_the_worker()

    with ThreadPoolExecutor() as pool:
        killed = pool.submit(kill_in_the_middle)
        failed = run_grid(TwoRuns(), store, engine, watcher=listener, on_outcome=lambda one: outcomes.append(one.job))
        killed.result()
    assert failed == []
    assert outcomes == [LONG, SHORT]  # none lost, none twice
    assert listener.begun == [LONG.key, LONG.key, SHORT.key]
    assert listener.lost_jobs == [(LONG.key, "its process was ended (signal SIGKILL)")]
    reopened = ResultStore.open(store.folder)
    assert reopened.skipped == []
    undisturbed = undisturbed_worth(tmp_path / "undisturbed")
    assert {key: worth(result) for key, result in reopened.results.items()} == undisturbed

    again = Listener()
    assert run_grid(TwoRuns(), reopened, engine, watcher=again) == []
    assert again.begun == []


def test_a_job_that_fails_says_why_and_the_others_go_on(tmp_path: Path) -> None:
    wrong = failing_job(tmp_path)
    outcomes = list(LocalEngine(tmp_path / "runs", processes=1).run([wrong, SHORT], Listener()))
    assert [outcome.job for outcome in outcomes] == [wrong, SHORT]
    assert "no-such-images" in (outcomes[0].error or "")
    assert outcomes[1].result is not None


def test_a_job_that_kills_its_workers_is_given_up(tmp_path: Path) -> None:
    deadly, listener = DeadlyJob(LONG.recipe), Listener()
    outcomes = list(LocalEngine(tmp_path, processes=1).run([deadly, SHORT], listener))
    assert [outcome.job.key for outcome in outcomes] == [deadly.key, SHORT.key]
    assert outcomes[0].error == f"its process was ended (exit code 7), {MOST_TRIES} times; is there memory enough?"
    assert outcomes[1].result is not None
    assert listener.begun == [deadly.key] * MOST_TRIES + [SHORT.key]
    assert len(listener.lost_jobs) == MOST_TRIES - 1


def test_a_worker_may_die_while_it_has_nothing_to_do(tmp_path: Path) -> None:
    outcomes = LocalEngine(tmp_path, processes=1).run([SHORT, OTHER], Listener())
    assert next(outcomes).job == SHORT
    kill_the_worker()
    until(lambda: active_children() == [])
    assert [outcome.job for outcome in outcomes if outcome.result] == [OTHER]


def test_closing_ends_what_is_under_way(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    outcomes = LocalEngine(tmp_path, processes=2).run([ENDLESS, SHORT], Listener())
    assert next(outcomes).job == SHORT
    until(lambda: is_under_way(ENDLESS, tmp_path))
    outcomes.close()
    assert active_children() == []
    assert capfd.readouterr().err == ""


DRIVER = """
import sys
from pathlib import Path
from singleshot.experiments.engines import GridWatcher, LocalEngine
from small_grids import ENDLESS

if __name__ == "__main__":
    list(LocalEngine(Path(sys.argv[1]), processes=1).run([ENDLESS], GridWatcher()))
"""


def test_a_driver_that_is_killed_leaves_no_process_and_a_checkpoint(tmp_path: Path) -> None:
    script, workspace = tmp_path / "driver.py", tmp_path / "runs"
    script.write_text(DRIVER)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    driver = subprocess.Popen([sys.executable, script, workspace], env=environment)
    until(lambda: is_under_way(ENDLESS, workspace))
    driver.kill()
    driver.wait()
    until(lambda: not is_held(workspace / ENDLESS.key))
    last = Run.open(workspace / ENDLESS.key).last_checkpoint()
    assert last is not None
    assert last.step > 0
