"""Progress bars on standard error, and errors that do not end a command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from singleshot.common.text import print_status, printable

if TYPE_CHECKING:
    from singleshot.data.fetching.check import ProgressCallback


@contextmanager
def bars() -> Iterator[Callable[[str, str], ProgressCallback]]:
    """Yield a function that adds a progress bar with a title and a unit, "images" or "MB".

    Without a terminal, each bar prints a line per tenth instead.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    title_column, amount_column = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[amount]}")
    columns = (title_column, BarColumn(), amount_column, TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:

        def bar(title: str, unit: str) -> ProgressCallback:
            task = progress.add_task(title, visible=False, amount="")
            tenths = 0

            def advance(done: int, total: int | None) -> None:
                nonlocal tenths
                if not total:
                    return
                amount = f"{done:,} of {total:,} {unit}"
                if unit == "MB":
                    amount = f"{done / 1e6:,.1f} of {total / 1e6:,.1f} MB"
                progress.update(task, completed=done, total=total, amount=amount, visible=True)
                before, tenths = tenths, done * 10 // total
                if progress.disable and tenths > before:
                    print_status(f"{title}: {amount}")

            return advance

        yield bar


@contextmanager
def failure_allowed(retry: str) -> Iterator[None]:
    """Report an error while a page is written, with the command that retries, instead of raising it."""
    try:
        yield
    except BrokenPipeError:  # the reader of standard output has closed it
        raise
    except Exception as error:  # a full disk, a damaged file, a missing package
        print_status(
            f"singleshot: no page was written ({type(error).__name__}: {error}); {printable(retry)} tries again"
        )
