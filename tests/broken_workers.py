"""Jobs that kill the process that receives them. Worker processes can import this module, unlike test modules."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from multiprocessing.connection import Connection

from singleshot.grid.training_job import TrainingJob


class DeadlyJob(TrainingJob):
    """Ends the process that receives it."""

    def __reduce__(self) -> tuple[Callable[[int], object], tuple[int]]:
        return os._exit, (7,)


class HalfAnsweredJob(TrainingJob):
    """Ends the process that receives it in the middle of an answer."""

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _answer_half, ()


def _answer_half() -> None:
    (connection,) = (found for found in gc.get_objects() if type(found) is Connection)
    os.write(connection.fileno(), (1000).to_bytes(4, "big") + b"not a thousand bytes")
    os._exit(7)
