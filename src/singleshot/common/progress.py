"""A progress bar for loops in the user's own code: in a terminal, in a notebook, and silent elsewhere."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")


def tracked(items: Iterable[Item], title: str) -> Iterator[Item]:
    """Yield the items, and show how many are done."""
    from rich.console import Console
    from rich.progress import Progress

    try:
        total: int | None = len(items)  # type: ignore[arg-type]
    except TypeError:  # the loader of an iterable dataset has no length
        total = None
    console = Console(stderr=True)
    if console.is_jupyter:
        yield from _in_notebook(items, title, total)
        return
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        yield from progress.track(items, total=total, description=title)


def _in_notebook(items: Iterable[Item], title: str, total: int | None) -> Iterator[Item]:
    """Rich needs ipywidgets for this; the progress element of HTML needs nothing."""
    from IPython.display import HTML, display

    def bar(done: int) -> Any:
        limit = "" if total is None else f' max="{total}" value="{done}"'
        return HTML(f"<progress{limit}></progress> {html.escape(title)}: {done:,}{f' of {total:,}' if total else ''}")

    shown = display(bar(0), display_id=True)
    for done, item in enumerate(items, start=1):
        yield item
        shown.update(bar(done))
