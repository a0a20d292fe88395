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
from singleshot.grid.engine import MAX_ATTEMPTS, run_grid
from singleshot.grid.local_engine import LocalEngine
from singleshot.grid.store import ResultStore
from singleshot.paper.methods import job_of
from singleshot.training.run import Run
from small_grids import (
    DISTURBED,
    ENDLESS,
    LONG,
    SHORT,
    Recorder,
    assert_complete,
    failing_job,
    is_training,
    small_grid,
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


def test_a_grid_survives_a_killed_worker(tmp_path: Path) -> None:
    workspace, recorder = tmp_path / "runs", Recorder()
    store, engine = ResultStore.open(tmp_path / "results"), LocalEngine(workspace, processes=1)

    def kill_in_the_middle() -> None:
        until(lambda: is_training(DISTURBED, workspace))
        kill_the_worker()

    with ThreadPoolExecutor() as pool:
        killed = pool.submit(kill_in_the_middle)
        assert run_grid(small_grid, store, engine, recorder) == []
        killed.result()
    ((lost, reason),) = recorder.losses
    assert reason == "its process ended (signal SIGKILL)"
    outcomes = [outcome.job.key for outcome in recorder.outcomes]
    assert sorted(recorder.starts) == sorted([*outcomes, lost])
    assert_complete(store, outcomes, tmp_path / "undisturbed")

    again = Recorder()
    assert run_grid(small_grid, store, engine, again) == []
    assert again.starts == []


def test_jobs_that_fail_or_kill_their_workers_do_not_stop_the_others(tmp_path: Path) -> None:
    failing, deadly, half = failing_job(tmp_path), DeadlyJob(LONG.recipe), HalfAnsweredJob(OTHER.recipe)
    recorder = Recorder()
    jobs = [failing, deadly, half, SHORT]
    outcomes = list(LocalEngine(tmp_path / "runs", processes=1).run(lambda: jobs, recorder))
    assert [outcome.job.key for outcome in outcomes] == [job.key for job in jobs]
    assert "no-such-images" in (outcomes[0].error or "")
    for outcome in outcomes[1:3]:
        reason = f"its process ended (exit code 7), {MAX_ATTEMPTS} times; is there enough memory?"
        assert outcome.error == reason
        assert [key for key, _ in recorder.losses].count(outcome.job.key) == MAX_ATTEMPTS - 1
    assert outcomes[3].result is not None
    expected = [failing.key, *[deadly.key] * MAX_ATTEMPTS, *[half.key] * MAX_ATTEMPTS, SHORT.key]
    assert recorder.starts == expected


def test_a_worker_may_die_while_idle(tmp_path: Path) -> None:
    outcomes = LocalEngine(tmp_path, processes=1).run(lambda: [SHORT, OTHER], Recorder())
    assert next(outcomes).job == SHORT
    kill_the_worker()
    until(lambda: active_children() == [])
    assert [outcome.job for outcome in outcomes if outcome.result] == [OTHER]


def test_closing_stops_running_jobs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    outcomes = LocalEngine(tmp_path, processes=2).run(lambda: [ENDLESS, SHORT], Recorder())
    assert next(outcomes).job == SHORT
    until(lambda: is_training(ENDLESS, tmp_path))
    outcomes.close()
    assert active_children() == []
    assert capfd.readouterr().err == ""


DRIVER = """
import sys
from pathlib import Path
from singleshot.grid.engine import GridWatcher
from singleshot.grid.local_engine import LocalEngine
from small_grids import ENDLESS

if __name__ == "__main__":
    list(LocalEngine(Path(sys.argv[1]), processes=1).run(lambda: [ENDLESS], GridWatcher()))
"""


def test_a_killed_driver_leaves_no_process_and_a_checkpoint(tmp_path: Path) -> None:
    script, workspace = tmp_path / "driver.py", tmp_path / "runs"
    script.write_text(DRIVER)
    paths = [str(Path(__file__).parents[1]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    driver = subprocess.Popen(
        [sys.executable, script, workspace], env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    )
    until(lambda: is_training(ENDLESS, workspace))
    driver.kill()
    driver.wait()
    until(lambda: not is_held(workspace / ENDLESS.key))
    assert Run.open(workspace / ENDLESS.key).checkpoint().step > 0


# In a separate process, because only the first child of a process starts the resource tracker.
TWO_CHILDREN = """
import signal
from multiprocessing import get_context
from singleshot.grid.local_engine import blocked_interrupts

def print_whether_blocked():
    print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()), flush=True)

if __name__ == "__main__":
    with blocked_interrupts():
        for _ in range(2):
            child = get_context("spawn").Process(target=print_whether_blocked)
            child.start()
            child.join()
    print_whether_blocked()
"""


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows has no signal masks")
def test_no_child_receives_interrupts(tmp_path: Path) -> None:
    script = tmp_path / "two_children.py"
    script.write_text(TWO_CHILDREN, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["True", "True", "False"]
