"""Status messages and progress on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from singleshot.common.text import printable

ProgressCallback = Callable[[int, "int | None"], None]
"""Called with the amount done and the total, or None if the total is unknown."""


def print_status(message: str) -> None:
    """Print a line to standard error. Control characters, as in names of files, are escaped."""
    print(printable(message), file=sys.stderr, flush=True)


@contextmanager
def decoding_progress(name: str, images: int | None) -> Iterator[Callable[[int], None]]:
    """Yield a function that advances the progress by a number of images. Show nothing if ``images`` is None."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    console = Console(stderr=True)
    if images is not None and not console.is_terminal:
        print_status(f"decoding {images:,} images of {name}; this is done once")
    with Progress(console=console, disable=images is None or not console.is_terminal) as progress:
        task = progress.add_task(f"decoding {escape(name)}", total=images)
        yield lambda done: progress.update(task, advance=done)
