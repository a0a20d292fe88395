from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import active_children
from pathlib import Path

import pytest

from broken_workers import DeadlyJob, HalfAnsweredJob
from singleshot.common.files import is_held
from singleshot.grid.engines import LocalEngine
from singleshot.grid.engines.engine import MOST_TRIES
from singleshot.grid.job import Job, job_of
from singleshot.grid.runner import run_grid
from singleshot.grid.store import ResultStore
from singleshot.training.run import Run
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
    tiny,
    until,
)

OTHER = job_of(tiny(), "baseline", seed=2)


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    assert active_children() == []


def kill_the_worker() -> None:
    (worker,) = active_children()
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)


def test_the_grid_survives_a_killed_worker(tmp_path: Path) -> None:
    workspace, listener = tmp_path / "runs", Listener()
    outcomes: list[str] = []
    store, engine = ResultStore.open(tmp_path / "results"), LocalEngine(workspace, processes=1)

    def kill_in_the_middle() -> None:
        until(lambda: is_under_way(DISTURBED, workspace))
        kill_the_worker()

    with ThreadPoolExecutor() as pool:
        killed = pool.submit(kill_in_the_middle)
        failed = run_grid(GRID, store, engine, watcher=listener, on_outcome=lambda one: outcomes.append(one.job.key))
        killed.result()
    assert failed == []
    ((lost, reason),) = listener.lost_jobs
    assert reason == "its process was ended (signal SIGKILL)"
    assert sorted(listener.begun) == sorted([*outcomes, lost])
    assert_whole(store, outcomes, tmp_path / "undisturbed")

    again = Listener()
    assert run_grid(GRID, store, engine, watcher=again) == []
    assert again.begun == []


def test_a_job_that_fails_says_why_and_the_others_go_on(tmp_path: Path) -> None:
    wrong = failing_job(tmp_path)
    outcomes = list(LocalEngine(tmp_path / "runs", processes=1).run(lambda: [wrong, SHORT], Listener()))
    assert [outcome.job for outcome in outcomes] == [wrong, SHORT]
    assert "no-such-images" in (outcomes[0].error or "")
    assert outcomes[1].result is not None


@pytest.mark.parametrize("deadly", [DeadlyJob(LONG.recipe), HalfAnsweredJob(LONG.recipe)], ids=["at once", "half"])
def test_a_job_that_kills_its_workers_is_given_up(deadly: Job, tmp_path: Path) -> None:
    listener = Listener()
    outcomes = list(LocalEngine(tmp_path, processes=1).run(lambda: [deadly, SHORT], listener))
    assert [outcome.job.key for outcome in outcomes] == [deadly.key, SHORT.key]
    assert outcomes[0].error == f"its process was ended (exit code 7), {MOST_TRIES} times; is there memory enough?"
    assert outcomes[1].result is not None
    assert listener.begun == [deadly.key] * MOST_TRIES + [SHORT.key]
    assert len(listener.lost_jobs) == MOST_TRIES - 1


def test_a_worker_may_die_while_it_has_nothing_to_do(tmp_path: Path) -> None:
    outcomes = LocalEngine(tmp_path, processes=1).run(lambda: [SHORT, OTHER], Listener())
    assert next(outcomes).job == SHORT
    kill_the_worker()
    until(lambda: active_children() == [])
    assert [outcome.job for outcome in outcomes if outcome.result] == [OTHER]


def test_closing_ends_what_is_under_way(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    outcomes = LocalEngine(tmp_path, processes=2).run(lambda: [ENDLESS, SHORT], Listener())
    assert next(outcomes).job == SHORT
    until(lambda: is_under_way(ENDLESS, tmp_path))
    outcomes.close()
    assert active_children() == []
    assert capfd.readouterr().err == ""


DRIVER = """
import sys
from pathlib import Path
from singleshot.grid.engines import GridWatcher, LocalEngine
from small_grids import ENDLESS

if __name__ == "__main__":
    list(LocalEngine(Path(sys.argv[1]), processes=1).run(lambda: [ENDLESS], GridWatcher()))
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
