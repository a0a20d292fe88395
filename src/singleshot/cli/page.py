"""The page that commands write beside their results: results without their page are results all the same."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from singleshot.terminal import printable, printable_lines


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
