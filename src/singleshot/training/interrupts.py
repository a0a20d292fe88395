"""SIGINT and SIGTERM during training: recorded, so that a run can save and stop after its step."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any

from singleshot.training.distributed import ProcessLostError


class Interrupts:
    """Records a first SIGINT or SIGTERM in ``received``; a second SIGINT ends the process immediately."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():  # other threads cannot set handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._record)
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if kind is ProcessLostError and self._previous:  # torchrun sends SIGTERM to the processes that survive
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def _record(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None and number == signal.SIGINT:
            os._exit(128 + number)
        self.received = signal.Signals(number)
        if number == signal.SIGINT:
            # Not print(), which the signal may have interrupted.
            os.write(2, b"\nsaving after this step; press Ctrl-C again to exit immediately\n")
