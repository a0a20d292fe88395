"""Ctrl-C and SIGTERM as a wish that is granted at the end of a step; a second Ctrl-C as an order."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType


class Interrupts:
    """Within it, a first signal is remembered in ``received`` and a second Ctrl-C ends the process at once."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():  # others cannot set handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def no_more(self) -> None:
        """Hear no SIGTERM until the process has ended by itself, with its message: torchrun sends one to survivors."""
        if signal.SIGTERM in self._before:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            del self._before[signal.SIGTERM]

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None and number == signal.SIGINT:
            os._exit(128 + number)
        self.received = signal.Signals(number)
        if number == signal.SIGINT:  # somebody is there
            # Not print(): the signal may have come in the middle of one.
            os.write(2, b"\nsaving at the end of this step; Ctrl-C again to exit at once\n")
