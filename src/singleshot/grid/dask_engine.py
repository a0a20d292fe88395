"""The engine for many machines: jobs run on the workers of a dask cluster, one job per worker."""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from singleshot import __version__
from singleshot.common.environment import describe_environment
from singleshot.common.errors import StoppedError
from singleshot.grid.engine import GridWatcher, JobQueue, Outcome, ReadyJobs, answer_of
from singleshot.grid.job import Job
from singleshot.training.display import Callback
from singleshot.training.step import StepResult

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_SECONDS = 10.0
POLL_SECONDS = 1.0
"""Interval at which the driver looks for new and lost workers."""
RESULT_SECONDS = 30.0
"""Time limit for fetching a finished result: it never arrives if its worker has died."""

Version = tuple[str, str | None]
"""Version number and revision of singleshot; the revision of an installed package is unknown."""

_one_job_at_a_time = threading.Lock()
"""In a worker: jobs do not share the device, even if the worker has several threads."""


@dataclass(frozen=True)
class DaskEngine:
    """Executes jobs on the workers of a dask scheduler that have the version of the driver.

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
        unusable: set[str] = set()  # addresses of workers with another version
        has_finished = threading.Event()
        had_workers = True
        # Closing the client releases its futures, and the scheduler cancels tasks without a future.
        with _connect(self.scheduler) as client:
            while running or jobs.upcoming():
                connected = set(_call_scheduler(client.nthreads))
                unusable &= connected  # a worker that returns at the same address may have another version
                if not connected - unusable and had_workers:
                    watcher.waiting(f"Waiting for a worker: start one with `dask worker {self.scheduler}`")
                had_workers = bool(connected - unusable)
                for address, (job, future) in list(running.items()):
                    kind, content = self._answer(job, future) if future.done() else ("", None)
                    outcome = None
                    if kind == "unusable":
                        unusable.add(address)
                        jobs.put_back(job)
                        reason = f"the dask worker at {address} {content}"
                        if connected <= unusable:
                            raise ValueError(f"{reason}; install the same version. Finished runs are kept")
                        watcher.waiting(f"Not used: {reason}")
                    elif kind == "killed" or (not kind and address not in connected):  # dask would wait for it
                        outcome = jobs.retry(job, f"its worker {address} is gone")
                    elif kind:
                        outcome = Outcome.from_answer(job, (kind, content))
                    else:
                        continue
                    del running[address]
                    if outcome is not None:
                        yield outcome
                for address in sorted(connected - unusable - running.keys()):
                    taken = jobs.take()
                    if taken is None:
                        break
                    task = {"key": f"singleshot-{taken.key}-{uuid4().hex}", "workers": [address]}
                    future = _call_scheduler(client.submit, _work, taken, *folders, _version(), **task)
                    future.add_done_callback(lambda _: has_finished.set())
                    running[address] = taken, future
                has_finished.wait(POLL_SECONDS)
                has_finished.clear()

    def _answer(self, job: Job, future: Future[Any]) -> tuple[str, Any]:
        """Return the answer of a finished task; empty if its worker died with it, and dask may repeat the task."""
        from distributed import CancelledError, KilledWorker

        try:
            answer: tuple[str, Any] = future.result(timeout=RESULT_SECONDS)
        except TimeoutError:
            return "", None
        except KilledWorker:  # several workers at this address died, and dask has given up
            return "killed", None
        except CancelledError:  # not by us: no answer is read after we cancel
            raise StoppedError(
                f"the dask scheduler {self.scheduler} is gone, or cancelled run {job.key}. Finished runs are kept; "
                "repeat the command to resume"
            ) from None
        except Exception as error:  # not an error of the run: a worker without the library, or with another version
            return "unusable", f"cannot execute runs of {_describe(_version())} ({type(error).__name__}: {error})"
        return answer


def _connect(address: str) -> Client:
    """Return a client without log messages: our errors report a lost scheduler."""
    try:
        from distributed import Client
    except ImportError:
        raise ValueError("--engine dask needs an extra: pip install 'singleshot[cluster]'") from None
    if not address:  # dask would start a local cluster
        raise ValueError("--engine dask needs the address of a scheduler, such as --scheduler tcp://host:8786")
    try:
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL + 1)
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = str(error) or type(error).__name__
    raise ValueError(
        f"--scheduler {address} cannot be reached ({reason}). Start one with `dask scheduler` and pass the address it "
        "prints, such as tcp://host:8786; check that no firewall blocks its port"
    )


def _call_scheduler(method: Any, *arguments: Any, **options: Any) -> Any:
    """Call a method of the client; raise StoppedError if the scheduler is gone."""
    from distributed.client import ClosedClientError

    try:
        return method(*arguments, **options)
    except OSError as error:
        reason = str(error) or type(error).__name__
    except (AttributeError, ClosedClientError):  # the client has closed itself
        reason = "it does not answer"
    raise StoppedError(f"the dask scheduler is gone ({reason}). Finished runs are kept; repeat the command to resume")


def _version() -> Version:
    """Return the version of this process. A revision has no "-dirty": local changes may be in documents only."""
    revision = describe_environment()["revision"]
    return __version__, None if revision is None else str(revision).removesuffix("-dirty")


def _describe(version: Version) -> str:
    number, revision = version
    return f"singleshot {number}" + ("" if revision is None else f" of revision {revision}")


def _work(job: Job, workspace: Path, data_root: Path | None, driver: Version) -> tuple[str, Any]:
    """Execute a job on a worker, unless it has another version than the driver, as far as revisions are known."""
    own = _version()
    if own != driver and (own[0] != driver[0] or None not in (own[1], driver[1])):
        return "unusable", f"has {_describe(own)}, but the driver has {_describe(driver)}"
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
