"""The engine for many machines: jobs run on the workers of a dask cluster, which restarts the jobs of dead workers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from singleshot.common.errors import StoppedError
from singleshot.grid.dask_workers import Workers, call_scheduler, connect
from singleshot.grid.engine import MAX_ATTEMPTS, GridWatcher, Outcome, ReadyJobs, answer_of, next_job
from singleshot.grid.job import Job
from singleshot.training.display import Callback
from singleshot.training.step import StepResult

if TYPE_CHECKING:
    from distributed import Client, Future

POLL_SECONDS = 1.0
"""Interval at which the driver looks for new workers."""
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
        started: set[str] = set()
        stranded: Counter[str] = Counter()  # attempts that lost all their workers, by key
        upcoming = next_job(ready_jobs, started)
        folders = self.workspace.absolute(), None if self.data_root is None else self.data_root.absolute()
        call = uuid4().hex  # part of every task name, so that tasks of other drivers are not confused with ours
        running: dict[str, _Task] = {}
        events: SimpleQueue[Any] = SimpleQueue()  # finished futures, and messages about removed workers
        # Closing the client releases its futures, and the scheduler cancels tasks without a future.
        with connect(self.scheduler) as client, _worker_events(client, events):
            workers = Workers(client, watcher)
            has_workers = True
            while upcoming or running:
                available = workers.available()
                if not available and has_workers:
                    watcher.waiting(f"Waiting for a worker: start one with `dask worker {self.scheduler}`")
                has_workers = bool(available)
                for name in [name for name, task in running.items() if task.is_stranded(available)]:
                    task = running.pop(name)
                    job = task.job
                    if not task.is_lost:  # the message about its worker may come later, or never
                        watcher.lost(job, "its worker is gone")
                    stranded[job.key] += 1
                    if stranded[job.key] < MAX_ATTEMPTS:
                        started.remove(job.key)
                    else:
                        yield Outcome(job, None, f"its workers died, {MAX_ATTEMPTS} times; is there enough memory?")
                    upcoming = next_job(ready_jobs, started)
                # One job per worker: dask also counts a failure for jobs that wait in the queue of a dead worker.
                while upcoming and len(running) < len(available):
                    name = f"singleshot-{upcoming.key}-{call}-{stranded[upcoming.key]}"
                    # Only workers whose version was checked.
                    future = call_scheduler(client.submit, _work, upcoming, *folders, key=name, workers=available)
                    running[name] = _Task(upcoming, future, available)
                    future.add_done_callback(events.put)
                    watcher.started(upcoming)
                    started.add(upcoming.key)
                    upcoming = next_job(ready_jobs, started)
                with suppress(Empty):
                    event = events.get(timeout=POLL_SECONDS)
                    if isinstance(event, dict):
                        _report_losses(event, running, watcher)
                    elif event.key in running:
                        outcome = _outcome(running[event.key], self.scheduler)
                        if outcome is None:
                            event.add_done_callback(events.put)
                            continue
                        del running[event.key]
                        yield outcome
                        upcoming = next_job(ready_jobs, started)


@dataclass
class _Task:
    """A job that was submitted to the cluster."""

    job: Job
    future: Future[Any]
    allowed: set[str]  # addresses of the workers that may execute it
    is_lost: bool = False  # the loss of its worker was reported

    def is_stranded(self, available: set[str]) -> bool:
        """Whether all allowed workers are gone: dask would wait for them and use no others."""
        return not self.allowed & available and not self.future.done()


@contextmanager
def _worker_events(client: Client, events: SimpleQueue[Any]) -> Iterator[None]:
    """Put the scheduler's messages about removed workers into the queue."""

    def receive(event: tuple[float, Any]) -> None:
        message = event[1]  # any user of the cluster can send messages
        if isinstance(message, dict) and message.get("action") == "remove-worker":
            events.put(message)

    client.subscribe_topic("all", receive)
    try:
        yield
    finally:
        if client.status == "running":  # a client that lost its scheduler is closed already
            client.unsubscribe_topic("all")


def _report_losses(event: dict[str, Any], running: dict[str, _Task], watcher: GridWatcher) -> None:
    for name in set(event["processing-tasks"]) & set(running):
        running[name].is_lost = True
        watcher.lost(running[name].job, f"its worker {event['worker']} is gone")


def _outcome(task: _Task, scheduler: str) -> Outcome | None:
    """Return the outcome of a finished task; None if its worker died with the result, and dask repeats the task."""
    from distributed import CancelledError, KilledWorker

    job = task.job
    try:
        return Outcome.from_answer(job, task.future.result(timeout=RESULT_SECONDS))
    except TimeoutError:
        return None
    except CancelledError:  # not by us: no events are read after we cancel
        raise StoppedError(
            f"the dask scheduler {scheduler} is gone, or cancelled run {job.key}. Finished runs are kept; repeat the "
            "command to resume"
        ) from None
    except KilledWorker as error:
        died = f"its workers died, {error.allowed_failures + 1} times, the last of them at {error.last_worker.address}"
        return Outcome(job, None, f"{died}; is there enough memory?")
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
