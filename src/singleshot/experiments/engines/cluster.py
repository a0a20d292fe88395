"""Runs on the workers of a dask cluster, on many machines; dask begins a dead worker's job again on another."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from singleshot import __version__
from singleshot.errors import StoppedError
from singleshot.experiments.engines.engine import GridWatcher, Outcome
from singleshot.experiments.job import Job
from singleshot.experiments.result import Result

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_SECONDS = 10.0
LOOK_SECONDS = 1.0
"""How often the driver looks for new workers while nothing else happens."""

_one_at_a_time = threading.Lock()
"""In a worker: a run has the device for itself, however many threads the worker was given."""


@dataclass(frozen=True)
class DaskEngine:
    """Makes runs on the workers of the scheduler at this address.

    They keep their checkpoints in ``workspace``, each on its own machine: on a disk that the machines share, a job
    whose worker died goes on from its last checkpoint, elsewhere it starts anew, and comes to the same end.
    """

    scheduler: str
    workspace: Path
    data_root: Path | None = None

    def run(self, jobs: Sequence[Job], watcher: GridWatcher) -> Generator[Outcome, None, None]:
        """The outcome of each job, as they come; closing the iterator stops the runs under way."""
        todo = deque(jobs)
        places = self.workspace.absolute(), None if self.data_root is None else self.data_root.absolute()
        call = uuid4().hex  # in the name of every task: nothing of an earlier or another driver is taken for ours
        running: dict[str, tuple[Job, Future[Any]]] = {}
        news: SimpleQueue[Any] = SimpleQueue()  # futures that are done, and workers that are gone
        # Closing the client drops its futures, and the scheduler cancels what nobody waits for.
        with _connected(self.scheduler) as client, _told(client, news):
            workers = _Workers(client)
            is_idle = False
            while todo or running:
                there = workers.count()
                if not there and not is_idle:
                    watcher.waiting(f"the cluster has no worker: start one with `dask worker {self.scheduler}`")
                is_idle = not there
                # No more jobs than workers: one that waits behind another counts as killed, too, if their worker dies.
                for _ in range(min(len(todo), there - len(running))):
                    job = todo.popleft()
                    name = f"singleshot-{job.key}-{call}"
                    future = client.submit(_work, job, *places, key=name)
                    running[name] = job, future
                    future.add_done_callback(news.put)
                    watcher.started(job)
                with suppress(Empty):
                    new = news.get(timeout=LOOK_SECONDS)
                    if isinstance(new, dict):
                        _tell_of_losses(new, running, watcher)
                    elif new.key in running:
                        job, future = running.pop(new.key)
                        yield _outcome(job, future, self.scheduler)


def _connected(address: str) -> Client:
    """A connection to the scheduler, or an error that says what to do."""
    try:
        from distributed import Client
        from distributed.utils import LoopRunner
    except ImportError:
        raise ValueError("--engine dask needs the extra: pip install 'singleshot[cluster]'") from None
    if not address:  # dask would start a cluster of its own
        raise ValueError("--engine dask needs the address of its scheduler, such as --scheduler tcp://host:8786")
    try:
        LoopRunner(asynchronous=False).run_sync(_knock, address)  # a Client that fails would leave its thread behind
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = str(error) or type(error).__name__
    raise ValueError(
        f"--scheduler {address} cannot be reached ({reason}). Start one with `dask scheduler` and give the address it "
        "shows, such as tcp://host:8786; a firewall must let its port through"
    )


async def _knock(address: str) -> None:
    from distributed import Security
    from distributed.comm.core import connect

    arguments = Security().get_connection_args("client")
    comm = await connect(address, timeout=CONNECT_SECONDS, **arguments)
    await comm.close()


@contextmanager
def _told(client: Client, news: SimpleQueue[Any]) -> Iterator[None]:
    """Within it, the scheduler's word that a worker is gone is put into the queue."""

    def hear(event: tuple[float, Any]) -> None:
        message = event[1]  # any user of the cluster may send some
        if isinstance(message, dict) and message.get("action") == "remove-worker":
            news.put(message)

    client.subscribe_topic("all", hear)
    try:
        yield
    finally:
        client.unsubscribe_topic("all")


class _Workers:
    """The workers of a cluster, each of which must have the library in the version of the driver."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.checked: set[str] = set()

    def count(self) -> int:
        """How many there are now; new ones are asked for their version first."""
        there = _asked(self.client.nthreads)
        if not self.checked.issuperset(there):
            self._check()
            self.checked.update(there)
        return len(there)

    def _check(self) -> None:
        versions = _asked(self.client.get_versions, packages=["singleshot"])
        for address, facts in versions["workers"].items():
            found = facts["packages"].get("singleshot")
            if found != __version__:
                raise ValueError(
                    f"the dask worker at {address} has {f'singleshot {found}' if found else 'no singleshot'}, this is "
                    f"{__version__}: install the same on every machine. Finished runs are kept"
                )


def _asked(question: Any, **options: Any) -> Any:
    try:
        return question(**options)
    except OSError as error:
        reason = str(error) or type(error).__name__
    raise StoppedError(f"the dask scheduler is gone ({reason}). Finished runs are kept; the same command goes on")


def _tell_of_losses(event: dict[str, Any], running: dict[str, tuple[Job, Future[Any]]], watcher: GridWatcher) -> None:
    for name in set(event["processing-tasks"]) & set(running):
        watcher.lost(running[name][0], f"its worker {event['worker']} is gone")


def _outcome(job: Job, future: Future[Any], scheduler: str) -> Outcome:
    from distributed import CancelledError, KilledWorker

    try:
        kind, content = future.result()
    except CancelledError:  # not by us: we do not listen any more when we cancel
        reason = f"the dask scheduler {scheduler} is gone, or gave up run {job.key}"
    except KilledWorker as error:
        died = f"its workers died, {error.allowed_failures + 1} times, the last of them at {error.last_worker.address}"
        return Outcome(job, None, f"{died}; is there memory enough?")
    except Exception as error:  # no reason a run gives: a worker without the library, or a mistake of ours
        return Outcome(job, None, f"{type(error).__name__}: {error}")
    else:
        if kind == "error":
            return Outcome(job, None, content)
        return Outcome(job, Result.from_dict(content, source=f"run {job.key}"))
    raise StoppedError(f"{reason}. Finished runs are kept; the same command goes on")


def _work(job: Job, workspace: Path, data_root: Path | None) -> tuple[str, Any]:
    """What a worker does with a job: the result, or the reason why there is none, as values every machine can read."""
    import torch

    from singleshot.experiments.execution import execute

    with _one_at_a_time:
        torch.set_num_threads(1)  # the same bits as on any other engine
        try:
            result = execute(job, workspace, data_root=data_root, watcher=_until_nobody_waits())
            return "result", result.to_dict()
        except (ValueError, StoppedError, OSError, RuntimeError) as error:  # of this job; the next may well succeed
            return "error", str(error)


def _until_nobody_waits() -> Any:
    """A watcher that ends a run nobody wants any more: dask cancels tasks, but never stops one that has begun."""
    from distributed import Status, get_worker

    from singleshot.training.step import StepResult
    from singleshot.training.watcher import Watcher

    leaving = (Status.closing, Status.closed, Status.failed)
    worker = get_worker()
    name = worker.get_current_task()

    class UntilNobodyWaits(Watcher):
        def stepped(self, step: int, result: StepResult, learning_rate: float) -> None:
            task = worker.state.tasks.get(name)
            if task is None or task.state == "cancelled" or worker.status in leaving:
                raise StoppedError(f"nobody waits for this run any more, after step {step}")

    return UntilNobodyWaits()
