"""Showing how far a slow decoding is: a bar on a terminal, one plain line elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def decoding_progress(name: str, images: int | None) -> Iterator[Callable[[int], None]]:
    """Gives a function to call with the number of images done; silent where ``images`` is None."""
    if images is None:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        tell(f"decoding {images:,} images of {name}; this is done once")
    columns = (TextColumn("decoding {task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(name, total=images)
        yield lambda done: progress.update(task, advance=done)


def tell(message: str) -> None:
    """A line on standard error, where it is in nobody's way."""
    print(message, file=sys.stderr, flush=True)
