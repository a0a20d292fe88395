"""The engine for many machines: jobs run on the workers of a dask cluster, one job per worker."""

from __future__ import annotations

import threading
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from singleshot.common.errors import StoppedError
from singleshot.grid.dask_workers import Workers, call_scheduler, connect
from singleshot.grid.engine import GridWatcher, JobQueue, Outcome, ReadyJobs, answer_of
from singleshot.grid.job import Job
from singleshot.training.display import Callback
from singleshot.training.step import StepResult

if TYPE_CHECKING:
    from distributed import Future

POLL_SECONDS = 1.0
"""Interval at which the driver looks for new and lost workers."""
RESULT_SECONDS = 30.0
"""Time limit for fetching a finished result: it never arrives if its worker has died."""

_one_job_at_a_time = threading.Lock()
"""In a worker: jobs do not share the device, even if the worker has several threads."""


@dataclass(frozen=True)
class DaskEngine:
    """Executes jobs on the workers of a dask scheduler.

    Workers keep checkpoints in ``workspace`` on their own machines. On a shared disk, the job of a dead worker resumes
    from its last checkpoint; otherwise it starts from scratch and gives the same result.
    """

    scheduler: str
    workspace: Path
    data_root: Path | None = None

    def run(self, ready_jobs: ReadyJobs, watcher: GridWatcher) -> Generator[Outcome, None, None]:
        """Yield the outcome of each job; closing the generator cancels the running jobs."""
        jobs = JobQueue(ready_jobs, watcher)
        folders = self.workspace.absolute(), None if self.data_root is None else self.data_root.absolute()
        running: dict[str, tuple[Job, Future[Any]]] = {}  # by the address of the worker
        has_finished = threading.Event()
        # Closing the client releases its futures, and the scheduler cancels tasks without a future.
        with connect(self.scheduler) as client:
            workers = Workers(client, watcher)
            had_workers = True
            while running or jobs.upcoming():
                available = workers.available()
                if not available and had_workers:
                    watcher.waiting(f"Waiting for a worker: start one with `dask worker {self.scheduler}`")
                had_workers = bool(available)
                for address, (job, future) in list(running.items()):
                    if future.done():
                        outcome = self._outcome(job, future)
                        if outcome is None:
                            continue
                    elif address in available:
                        continue
                    else:  # dask would wait for this worker
                        outcome = jobs.retry(job, f"its worker {address} is gone")
                    del running[address]
                    if outcome is not None:
                        yield outcome
                for address in sorted(available - running.keys()):
                    taken = jobs.take()
                    if taken is None:
                        break
                    name = f"singleshot-{taken.key}-{uuid4().hex}"  # not the name of a task of another driver
                    future = call_scheduler(client.submit, _work, taken, *folders, key=name, workers=[address])
                    future.add_done_callback(lambda _: has_finished.set())
                    running[address] = taken, future
                has_finished.wait(POLL_SECONDS)
                has_finished.clear()

    def _outcome(self, job: Job, future: Future[Any]) -> Outcome | None:
        """Return the outcome of a finished task; None if its worker died with the result."""
        from distributed import CancelledError

        try:
            return Outcome.from_answer(job, future.result(timeout=RESULT_SECONDS))
        except TimeoutError:
            return None
        except CancelledError:  # not by us: no outcome is read after we cancel
            raise StoppedError(
                f"the dask scheduler {self.scheduler} is gone, or cancelled run {job.key}. Finished runs are kept; "
                "repeat the command to resume"
            ) from None
        except Exception as error:  # not an error of the run: a worker without the library, or a bug
            return Outcome(job, None, f"{type(error).__name__}: {error}")


def _work(job: Job, workspace: Path, data_root: Path | None) -> tuple[str, Any]:
    """Execute a job on a worker."""
    with _one_job_at_a_time:
        return answer_of(job, workspace, data_root, _cancellation_callback())


def _cancellation_callback() -> Callback:
    """Return a callback that stops cancelled runs: dask cancels tasks, but never interrupts a running one."""
    from distributed import Status, get_worker

    leaving = (Status.closing, Status.closed, Status.failed)
    worker = get_worker()
    name = worker.get_current_task()

    class CancellationCallback(Callback):
        def on_step(self, step: int, result: StepResult, learning_rate: float) -> None:
            task = worker.state.tasks.get(name)
            if task is None or task.state == "cancelled" or worker.status in leaving:
                raise StoppedError(f"this run was cancelled after step {step}")

    return CancellationCallback()
