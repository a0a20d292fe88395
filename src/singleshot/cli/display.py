"""Progress bars on a terminal, occasional lines elsewhere, and pages that may fail to be written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from singleshot.common.text import printable, printable_lines

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from singleshot.data.progress import ProgressCallback


def say(text: str) -> None:
    """Print a message for people on standard error."""
    print(printable_lines(text), file=sys.stderr, flush=True)


@contextmanager
def bars() -> Iterator[Bars]:
    """Show progress bars until the end of the block."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[amount]}"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    ) as progress:
        yield Bars(progress)


class Bars:
    """Creates progress bars that are shown together."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def images(self, title: str) -> ProgressCallback:
        """Return a bar that counts images."""
        return self._bar(title, lambda done, total: f"{done:,} of {total:,} images")

    def bytes(self, title: str) -> ProgressCallback:
        """Return a bar that counts bytes."""
        return self._bar(title, lambda done, total: f"{done / 1e6:,.1f} of {total / 1e6:,.1f} MB")

    def _bar(self, title: str, amount: Callable[[int, int], str]) -> ProgressCallback:
        task: TaskID | None = None
        tenths = 0

        def advance(done: int, total: int | None) -> None:
            nonlocal task, tenths
            if not total:
                return
            if not self._progress.disable:
                if task is None:
                    task = self._progress.add_task(title, amount="")
                self._progress.update(task, completed=done, total=total, amount=amount(done, total))
                return
            before, tenths = tenths, done * 10 // total
            if tenths > before:
                say(f"{title}: {amount(done, total)}")

        return advance


def try_to_write(page: Path, write: Callable[[Path], bool], retry: str) -> bool | None:
    """Write a page, or report on standard error why it failed and which command retries.

    Args:
        page: the .html file.
        write: imports what it needs and writes the page; returns False if there is nothing to show.
        retry: the command that writes the page again.

    Returns:
        whether the page was written; None if it failed.
    """
    try:
        return write(page)
    except Exception as error:  # a full disk, a damaged file, a missing package
        say(f"singleshot: no page was written ({type(error).__name__}: {error}); {printable(retry)} tries again")
        return None
