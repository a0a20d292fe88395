"""What processes that make runs must inherit from the one that starts them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


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
