"""The predictions behind the quickstart's numbers: a file per method and seed, and the page about the first seed.

OUTPUT/predictions/seed-0/vwci.npz   what one net says about the test images
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from singleshot.report.page import Subject

TITLE = "Quickstart: a small net on a few handwritten digits, trained six ways"
SHOWN_SEED = 0
"""All seeds are judged by the same images: taken together, these would pass for more examples than there are."""


def predictions_file(folder: Path, method: str, seed: int) -> Path:
    """Where the predictions of a method are.

    >>> predictions_file(Path("p"), "cross-entropy, T = 5", 3).as_posix()
    'p/seed-3/cross-entropy-t-5.npz'
    """
    name = re.sub("[^a-z0-9.]+", "-", method.lower())
    return folder / f"seed-{seed}" / f"{name}.npz"


def are_there(folder: Path, methods: Sequence[str]) -> bool:
    """Whether every method has the predictions that the page shows; results of earlier versions have none."""
    return all(predictions_file(folder, method, SHOWN_SEED).is_file() for method in methods)


def write_quickstart_page(folder: Path, methods: Sequence[str], page: Path) -> None:
    """Write the page about all methods, of each the first seed."""
    from singleshot.report.page import subject_of_file, write_page

    def subjects() -> Iterator[Subject]:
        for method in methods:
            subject = subject_of_file(predictions_file(folder, method, SHOWN_SEED), name=method)
            yield replace(subject, about=f"seed {SHOWN_SEED}: {subject.about}")

    write_page(subjects(), page, title=TITLE)
