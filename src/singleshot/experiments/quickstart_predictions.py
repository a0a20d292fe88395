"""The predictions behind the quickstart's numbers: a file per method and seed, and the page that is made from them.

OUTPUT/predictions/seed-0/vwci.npz   what one net says about the test images
OUTPUT/predictions/vwci.npz          the same of all seeds, one after the other
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from singleshot.predictions import read_predictions, write_predictions

TITLE = "Quickstart: a small net on a few handwritten digits, trained six ways"


def predictions_file(folder: Path, method: str, seed: int | None = None) -> Path:
    """Where the predictions of a method are, of one seed or of all.

    >>> predictions_file(Path("p"), "cross-entropy, T = 5", 3).as_posix()
    'p/seed-3/cross-entropy-t-5.npz'
    """
    name = re.sub("[^a-z0-9.]+", "-", method.lower())
    return (folder if seed is None else folder / f"seed-{seed}") / f"{name}.npz"


def are_there(folder: Path, methods: Sequence[str], seeds: int) -> bool:
    """Whether every method and seed has its predictions; results of earlier versions have none."""
    return all(predictions_file(folder, method, seed).is_file() for method in methods for seed in range(seeds))


def write_quickstart_page(folder: Path, methods: Sequence[str], seeds: int, page: Path) -> None:
    """Write the page about all methods, the predictions of their seeds pooled."""
    from singleshot.report.page import subject_of_file, write_page

    def subjects() -> Iterator[Any]:
        for method in methods:
            pooled = predictions_file(folder, method)
            write_predictions(pooled, _chunks(folder, method, seeds), class_names=tuple("0123456789"))
            subject = subject_of_file(pooled, name=method)
            if seeds > 1:
                about = f"{subject.about}, too narrow: the same images were judged by the nets of {seeds} seeds"
                subject = replace(subject, about=about)
            yield subject

    write_page(subjects(), page, title=TITLE)


def _chunks(folder: Path, method: str, seeds: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for seed in range(seeds):
        for chunk in read_predictions(predictions_file(folder, method, seed)).chunks():
            yield chunk.scores, chunk.labels
