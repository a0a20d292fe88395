"""Jobs that end the process which receives them, each in its own way; importable there, as pytest's modules are not."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from multiprocessing.connection import Connection

from singleshot.grid.job import Job


class DeadlyJob(Job):
    """Ends the process that receives it."""

    def __reduce__(self) -> tuple[Callable[[int], object], tuple[int]]:
        return os._exit, (7,)


class HalfAnsweredJob(Job):
    """Ends the process that receives it in the middle of an answer."""

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _answer_half, ()


def _answer_half() -> None:
    (connection,) = (found for found in gc.get_objects() if type(found) is Connection)
    os.write(connection.fileno(), (1000).to_bytes(4, "big") + b"not a thousand bytes")
    os._exit(7)
