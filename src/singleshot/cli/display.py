"""Progress on standard error: bars on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from singleshot.common.text import printable, printable_lines
from singleshot.data.progress import print_status

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


Advance = Callable[[int, "int | None"], None]
"""Called with how much is done, of how much. Where that is not known nothing is shown: it takes a moment only."""


@contextmanager
def bars() -> Iterator[Bars]:
    """Shows what is made of them until the end of the block."""
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
    """Makes a bar for each thing that is counted; all are shown together."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def images(self, what: str) -> Advance:
        """For counting images."""
        return self._bar(what, lambda done, total: f"{done:,} of {total:,} images")

    def bytes(self, what: str) -> Advance:
        """For counting bytes."""
        return self._bar(what, lambda done, total: f"{done / 1e6:,.1f} of {total / 1e6:,.1f} MB")

    def _bar(self, what: str, amount: Callable[[int, int], str]) -> Advance:
        task: TaskID | None = None
        tenths = 0

        def advance(done: int, total: int | None) -> None:
            nonlocal task, tenths
            if not total:
                return
            if not self._progress.disable:
                if task is None:
                    task = self._progress.add_task(what, amount="")
                self._progress.update(task, completed=done, total=total, amount=amount(done, total))
                return
            before, tenths = tenths, done * 10 // total
            if tenths > before:
                print_status(f"{what}: {amount(done, total)}")

        return advance


def try_to_write(page: Path, write: Callable[[Path], bool], retry: str) -> bool | None:
    """Write a page if that is possible, and say on standard error why it was not, and what tries again.

    Args:
        page: the .html file.
        write: imports what it needs and writes the page; False where there is nothing to show.
        retry: the command that writes the page another time.

    Returns:
        whether there is a page now; None where it failed, and that was said.
    """
    try:
        return write(page)
    except Exception as error:  # whatever it is: a full disk, a damaged file, a package that is missing
        reason = printable_lines(f"{type(error).__name__}: {error}")
        print(f"singleshot: no page was written ({reason}); {printable(retry)} tries again", file=sys.stderr)
        return None
