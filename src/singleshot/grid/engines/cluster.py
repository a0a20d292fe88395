"""Runs on the workers of a dask cluster, on many machines; dask begins a dead worker's job again on another."""

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
from singleshot.grid.engines.engine import MOST_TRIES, GridWatcher, Outcome, Todo, next_of
from singleshot.grid.engines.scheduler import Workers, asked, connected
from singleshot.grid.job import Job
from singleshot.grid.result import Result

if TYPE_CHECKING:
    from distributed import Client, Future


LOOK_SECONDS = 1.0
"""How often the driver looks for new workers while nothing else happens."""

ANSWER_SECONDS = 30.0
"""How long a finished result may take to come; if its worker dies meanwhile it never does."""

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

    def run(self, todo: Todo, watcher: GridWatcher) -> Generator[Outcome, None, None]:
        """The outcome of each job, as they come; closing the iterator stops the runs under way."""
        begun: set[str] = set()
        stranded: Counter[str] = Counter()
        upcoming = next_of(todo, begun)
        places = self.workspace.absolute(), None if self.data_root is None else self.data_root.absolute()
        call = uuid4().hex  # in the name of every task: nothing of an earlier or another driver is taken for ours
        running: dict[str, _Task] = {}
        news: SimpleQueue[Any] = SimpleQueue()  # futures that are done, and workers that are gone
        # Closing the client drops its futures, and the scheduler cancels what nobody waits for.
        with connected(self.scheduler) as client, _told(client, news):
            workers = Workers(client, watcher)
            is_idle = False
            while upcoming or running:
                there = workers.there()
                if not there and not is_idle:
                    watcher.waiting(f"Waiting for a worker: start one with `dask worker {self.scheduler}`")
                is_idle = not there
                for name in [name for name, task in running.items() if task.is_stranded(there)]:
                    task = running.pop(name)
                    job = task.job
                    if not task.is_lost:  # the word that its worker is gone comes later, or never
                        watcher.lost(job, "its worker is gone")
                    stranded[job.key] += 1
                    if stranded[job.key] < MOST_TRIES:
                        begun.remove(job.key)
                    else:
                        yield Outcome(job, None, f"its workers died, {MOST_TRIES} times; is there memory enough?")
                    upcoming = next_of(todo, begun)
                # No more jobs than workers: one that waits behind another counts as killed, too, if their worker dies.
                while upcoming and len(running) < len(there):
                    name = f"singleshot-{upcoming.key}-{call}-{stranded[upcoming.key]}"
                    # Never those that came since: what they have was not asked yet.
                    future = asked(client.submit, _work, upcoming, *places, key=name, workers=there)
                    running[name] = _Task(upcoming, future, there)
                    future.add_done_callback(news.put)
                    watcher.started(upcoming)
                    begun.add(upcoming.key)
                    upcoming = next_of(todo, begun)
                with suppress(Empty):
                    new = news.get(timeout=LOOK_SECONDS)
                    if isinstance(new, dict):
                        _tell_of_losses(new, running, watcher)
                    elif new.key in running:
                        outcome = _outcome(running[new.key], self.scheduler)
                        if outcome is None:
                            new.add_done_callback(news.put)
                            continue
                        del running[new.key]
                        yield outcome
                        upcoming = next_of(todo, begun)


@dataclass
class _Task:
    """A job that was given to the cluster."""

    job: Job
    future: Future[Any]
    only: set[str]  # the workers that may make it
    is_lost: bool = False  # the death of its worker was told

    def is_stranded(self, there: set[str]) -> bool:
        """Whether none of its workers is left: dask would wait for those very ones, and not take others."""
        return not self.only & there and not self.future.done()


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
        if client.status == "running":  # one that lost its scheduler has closed itself, and would complain
            client.unsubscribe_topic("all")


def _tell_of_losses(event: dict[str, Any], running: dict[str, _Task], watcher: GridWatcher) -> None:
    for name in set(event["processing-tasks"]) & set(running):
        running[name].is_lost = True
        watcher.lost(running[name].job, f"its worker {event['worker']} is gone")


def _outcome(task: _Task, scheduler: str) -> Outcome | None:
    """What became of a job that is done; None where its worker took the result to its grave, and it is made again."""
    from distributed import CancelledError, KilledWorker

    job = task.job
    try:
        kind, content = task.future.result(timeout=ANSWER_SECONDS)
    except TimeoutError:
        return None
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

    from singleshot.grid.execution import execute

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

    from singleshot.training.display import Callback
    from singleshot.training.step import StepResult

    leaving = (Status.closing, Status.closed, Status.failed)
    worker = get_worker()
    name = worker.get_current_task()

    class UntilNobodyWaits(Callback):
        def on_step(self, step: int, result: StepResult, learning_rate: float) -> None:
            task = worker.state.tasks.get(name)
            if task is None or task.state == "cancelled" or worker.status in leaving:
                raise StoppedError(f"nobody waits for this run any more, after step {step}")

    return UntilNobodyWaits()
