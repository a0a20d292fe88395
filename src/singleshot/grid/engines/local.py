"""What processes that make runs must inherit from the one that starts them."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from singleshot.common.errors import StoppedError
from singleshot.grid.engines.engine import MOST_TRIES, GridWatcher, Outcome, Todo, next_of
from singleshot.grid.job import Job
from singleshot.grid.result import Result


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Processes started within never see Ctrl-C, not even while they start: the parent alone answers it, afterwards."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    # Spawning starts the tracker when it does not run yet, and that ends with interrupts let in again, whatever was
    # held back before: the first child would see them.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Workers inherit the environment: two OpenMP teams on two cores are slower than two single threads."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


@dataclass(frozen=True)
class LocalEngine:
    """Makes runs in ``processes`` processes that keep their checkpoints in ``workspace``."""

    workspace: Path
    processes: int
    data_root: Path | None = None

    def run(self, todo: Todo, watcher: GridWatcher) -> Generator[Outcome, None, None]:
        """The outcome of each job, as they come; closing the iterator ends the processes."""
        again: deque[Job] = deque()  # whose process was ended
        tries: Counter[str] = Counter()  # of all that were begun
        workers: dict[int, _Worker] = {}  # by their place
        try:
            while True:
                for place in range(self.processes):
                    if place in workers and workers[place].job is not None:
                        continue
                    job = again.popleft() if again else next_of(todo, tries)
                    if job is None:
                        break
                    if place not in workers:
                        with one_thread_each(), interrupts_held_back():
                            workers[place] = _Worker.start(self, place)
                    workers[place].begin(job)
                    tries[job.key] += 1
                    watcher.started(job)
                busy = {worker.connection: worker for worker in workers.values() if worker.job is not None}
                if not busy:
                    break
                for ready in wait(busy):
                    assert isinstance(ready, Connection)
                    worker = busy[ready]
                    job = worker.job
                    assert job is not None
                    try:
                        outcome = _received(job, ready.recv())
                        worker.job = None
                    except (EOFError, OSError):  # the latter where it was ended in the middle of its answer
                        del workers[worker.place]
                        reason = f"its process was ended ({worker.ending()})"
                        if tries[job.key] < MOST_TRIES:
                            watcher.lost(job, reason)
                            again.append(job)
                            continue
                        outcome = Outcome(job, None, f"{reason}, {MOST_TRIES} times; is there memory enough?")
                    yield outcome
        finally:
            deadline = time.monotonic() + 10
            for worker in workers.values():
                worker.stop()
            for worker in workers.values():
                worker.end(deadline)


@dataclass
class _Worker:
    """A process and the job it is at."""

    process: BaseProcess
    connection: Connection
    place: int  # among the processes: on a machine with several devices, which of them is its own
    job: Job | None = None

    @classmethod
    def start(cls, engine: LocalEngine, place: int) -> _Worker:
        context = get_context("spawn")  # a forked process would inherit torch's threads, and hang
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, engine, place), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours, place)

    def begin(self, job: Job) -> None:
        """Let it make this run."""
        self.job = job
        with suppress(ConnectionError):  # one that died while it had nothing to do shows when it is listened to
            self.connection.send(job)

    def ending(self) -> str:
        """How the process ended, in words."""
        self.process.join(5)
        code = self.process.exitcode
        return f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"

    def stop(self) -> None:
        """Ask it to end after the step that is under way, with a checkpoint."""
        self.connection.close()
        self.process.terminate()

    def end(self, deadline: float) -> None:
        """Wait until it has ended, and end it when that takes too long."""
        self.process.join(max(deadline - time.monotonic(), 0))
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _work(connection: Connection, engine: LocalEngine, place: int) -> None:
    """What a process does: one job after another, until nobody listens."""
    import torch

    from singleshot.grid.execution import execute
    from singleshot.training.display import Callback
    from singleshot.training.step import StepResult

    class WhileSomebodyListens(Callback):
        """A driver that was killed cannot end its processes: they notice that the connection is closed, and save."""

        def on_step(self, step: int, result: StepResult, learning_rate: float) -> None:
            if connection.poll():  # nothing is sent while a job is under way
                os.kill(os.getpid(), signal.SIGTERM)

    os.environ["LOCAL_RANK"] = str(place)  # by which a run takes its device, as under torchrun
    torch.set_num_threads(1)
    while True:
        try:
            job = connection.recv()
        except (EOFError, ConnectionError):
            return
        try:
            watcher = WhileSomebodyListens()
            result = execute(job, engine.workspace, data_root=engine.data_root, watcher=watcher)
            answer: Any = ("result", result.to_dict())
        except (ValueError, OSError) as error:  # of this job; the next may well succeed
            answer = ("error", str(error))
        except StoppedError as stopped:
            if stopped.exit_code == 128 + signal.SIGTERM:  # not the job's fault: another process goes on with it
                sys.exit(stopped.exit_code)
            answer = ("error", str(stopped))
        except Exception as error:  # trying it again would not mend it
            answer = ("error", f"{type(error).__name__}: {error}")
        with suppress(ConnectionError):  # nobody listens any more; the next recv says so
            connection.send(answer)


def _received(job: Job, answer: tuple[str, Any]) -> Outcome:
    kind, content = answer
    if kind == "error":
        return Outcome(job, None, content)
    return Outcome(job, Result.from_dict(content, source=f"run {job.key}"))
