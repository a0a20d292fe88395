"""The engine for one machine: jobs run in local processes."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from singleshot.common.errors import StoppedError
from singleshot.grid.engine import GridWatcher, JobQueue, Outcome, ReadyJobs, answer_of
from singleshot.grid.job import Job
from singleshot.training.display import Callback
from singleshot.training.step import StepResult

SHUTDOWN_SECONDS = 10


@dataclass(frozen=True)
class LocalEngine:
    """Executes jobs in ``processes`` processes; training runs keep their checkpoints in ``workspace``."""

    workspace: Path
    processes: int
    data_root: Path | None = None

    def run(self, ready_jobs: ReadyJobs, watcher: GridWatcher) -> Generator[Outcome, None, None]:
        """Yield the outcome of each job; closing the generator ends the processes."""
        jobs = JobQueue(ready_jobs, watcher)
        workers: dict[int, _Worker] = {}  # by rank
        try:
            while True:
                for rank in range(self.processes):
                    if rank in workers and workers[rank].job is not None:
                        continue
                    job = jobs.take()
                    if job is None:
                        break
                    if rank not in workers:
                        workers[rank] = _Worker.start(self, rank)
                    workers[rank].send(job)
                busy = {worker.connection: worker for worker in workers.values() if worker.job is not None}
                if not busy:
                    break
                for connection in wait(busy):
                    assert isinstance(connection, Connection)
                    worker = busy[connection]
                    job, worker.job = worker.job, None
                    assert job is not None
                    outcome: Outcome | None
                    try:
                        outcome = Outcome.from_answer(job, connection.recv())
                    except (EOFError, OSError):  # OSError: the process died while it was sending
                        del workers[worker.rank]
                        outcome = jobs.retry(job, f"its process ended ({worker.exit_reason()})")
                    if outcome is not None:
                        yield outcome
        finally:
            for worker in workers.values():
                worker.connection.close()
                worker.process.terminate()  # training saves a checkpoint after the current step
            deadline = time.monotonic() + SHUTDOWN_SECONDS
            for worker in workers.values():
                worker.process.join(max(deadline - time.monotonic(), 0))
                worker.process.kill()
                worker.process.join()


@dataclass
class _Worker:
    """A process and its current job."""

    process: BaseProcess
    connection: Connection
    rank: int  # selects the device on a machine with several
    job: Job | None = None

    @classmethod
    def start(cls, engine: LocalEngine, rank: int) -> _Worker:
        context = get_context("spawn")  # a forked process would inherit the threads of torch and hang
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, engine, rank), daemon=True)
        with blocked_interrupts():
            process.start()
        theirs.close()
        return cls(process, ours, rank)

    def send(self, job: Job) -> None:
        self.job = job
        with suppress(ConnectionError):  # a worker that died while idle is noticed by `wait`
            self.connection.send(job)

    def exit_reason(self) -> str:
        self.process.join(5)
        code = self.process.exitcode
        return f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"


@contextmanager
def blocked_interrupts() -> Iterator[None]:
    """Start child processes that never receive Ctrl-C: only the parent handles it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    # Spawning starts the resource tracker if it is not running, and that unblocks interrupts for the first child.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(connection: Connection, engine: LocalEngine, rank: int) -> None:
    """Execute jobs until the parent closes the connection."""

    class ParentCallback(Callback):
        """Saves a checkpoint and exits if the parent was killed, which closes the connection."""

        def on_step(self, step: int, result: StepResult, learning_rate: float) -> None:
            if connection.poll():  # nothing is sent while a job is running
                os.kill(os.getpid(), signal.SIGTERM)

    os.environ["LOCAL_RANK"] = str(rank)  # selects the device, as under torchrun
    while True:
        try:
            job = connection.recv()
        except (EOFError, ConnectionError):
            return
        try:
            answer = answer_of(job, engine.workspace, engine.data_root, ParentCallback())
        except StoppedError as stopped:  # by a signal; another process resumes the job
            sys.exit(stopped.exit_code)
        with suppress(ConnectionError):  # the parent is gone; the next recv fails
            connection.send(answer)
