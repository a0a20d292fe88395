"""Progress on standard error: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

Advance = Callable[[int, "int | None"], None]
"""Called with how much is done, of how much where that is known."""


def say(message: str) -> None:
    """A line on standard error, where it is in nobody's way."""
    print(message, file=sys.stderr, flush=True)


@contextmanager
def image_bar(what: str) -> Iterator[Advance]:
    """For counting images; nothing is shown where the total is not known, for then it takes a moment only."""
    from rich.progress import MofNCompleteColumn, TimeRemainingColumn

    with _progress(MofNCompleteColumn(), TimeRemainingColumn()) as progress:
        yield _advance(progress, what, "images")


@contextmanager
def byte_bar() -> Iterator[Callable[[str], Advance]]:
    """For counting bytes; gives what to call with the name of each file."""
    from rich.progress import DownloadColumn, TimeRemainingColumn, TransferSpeedColumn

    with _progress(DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()) as progress:
        yield lambda name: _advance(progress, name, "bytes")


@contextmanager
def _progress(*columns: ProgressColumn) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *columns,
        console=console,
        disable=not console.is_terminal,
    ) as progress:
        yield progress


def _advance(progress: Progress, what: str, unit: str) -> Advance:
    task: TaskID | None = None
    told = 0

    def advance(done: int, total: int | None) -> None:
        nonlocal task, told
        if not total:
            return
        if not progress.disable:
            task = progress.add_task(what, total=total) if task is None else task
            progress.update(task, completed=done, total=total)
        elif done * 10 // total > told:  # every tenth
            told = done * 10 // total
            say(f"{what}: {done:,} of {total:,} {unit}")

    return advance
