"""What every engine does: ask for jobs, hand back an outcome for each, and survive the loss of a worker."""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from singleshot.grid.job import Job
from singleshot.grid.result import Result

MOST_TRIES = 3
"""How often a job is begun whose worker dies: a job that kills its workers must not do so for ever."""


@dataclass(frozen=True)
class Outcome:
    """A job that came to its end: with a result, or with the reason why there is none."""

    job: Job
    result: Result | None = field(repr=False)
    error: str | None = None


Todo = Callable[[], Sequence[Job]]
"""What can be begun now, the first first; what comes to its end may make more possible."""


def next_of(todo: Todo, begun: Container[str]) -> Job | None:
    """The first job that is not among these keys; None where there is none for now."""
    return next((job for job in todo() if job.key not in begun), None)


class GridWatcher:
    """Hears how a grid goes; does nothing with it unless a subclass does."""

    def started(self, job: Job) -> None:
        """A worker has begun this job."""

    def lost(self, job: Job, reason: str) -> None:
        """The worker of this job is gone; the job is begun again."""

    def waiting(self, reason: str) -> None:
        """Nothing, or not all that could, goes on, and what must happen for it to."""


class Engine(Protocol):
    """Makes runs somewhere."""

    def run(self, todo: Todo, watcher: GridWatcher) -> Generator[Outcome, None, None]:
        """The outcome of each job, as they come, until there is nothing to do; closing the iterator stops it.

        Every job is begun once, however often it is named, and again only if its worker dies. What there is to do is
        asked for anew after each outcome.
        """
        ...
