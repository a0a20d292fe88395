"""Figures 1, 2, 4 and 5 of the paper, as far as their runs are there: as a picture, and as the numbers behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from singleshot.checks import check_choice
from singleshot.experiments.figure_drawings import draw_coverage, draw_passes, draw_reliability, draw_variance
from singleshot.experiments.figure_numbers import (
    Setting,
    coverage_numbers,
    passes_numbers,
    reliability_numbers,
    setting_of,
    variance_numbers,
)
from singleshot.experiments.job import job_of
from singleshot.experiments.plan import EXHIBITS
from singleshot.experiments.store import ResultStore
from singleshot.files import write_atomically
from singleshot.training.recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".pdf", ".svg")


@dataclass(frozen=True)
class _Parts:
    """What a figure is made of."""

    numbers: Callable[[Setting], dict[str, Any]]  # of one data set and network; empty where there is nothing to draw
    draw: Callable[[Sequence[Setting]], Figure]


_FIGURES = {
    "fig1": _Parts(reliability_numbers, draw_reliability),
    "fig2": _Parts(variance_numbers, draw_variance),
    "fig4": _Parts(passes_numbers, draw_passes),
    "fig5": _Parts(coverage_numbers, draw_coverage),
}


def draw_figure(exhibit: str, bases: Sequence[Recipe], seeds: int, store: ResultStore) -> tuple[Figure, dict[str, Any]]:
    """The figure, and the numbers behind it, ready for JSON, with the runs that are missing.

    What is there is drawn, every number with the seeds it is from; where nothing is, that is a ValueError.

    Args:
        exhibit: fig1, fig2, fig4 or fig5.
        bases: what all methods share, one for each data set and network.
        seeds: how many were asked for.
        store: the finished runs.
    """
    check_choice("exhibit", exhibit, tuple(_FIGURES))
    parts = _FIGURES[exhibit]
    settings = [setting_of(base, EXHIBITS[exhibit], seeds, store) for base in bases]
    shown = [(setting, numbers) for setting in settings if (numbers := parts.numbers(setting))]
    missing = _missing(exhibit, bases, seeds, store)
    if not shown:
        reason = f"these runs are missing: {'; '.join(missing)}" if missing else "no network in it has any noise"
        raise ValueError(f"{exhibit} has nothing to draw: {reason}")
    found = [{"dataset": setting.dataset, "model": setting.model, **numbers} for setting, numbers in shown]
    return parts.draw([setting for setting, _ in shown]), {"exhibit": exhibit, "settings": found, "missing": missing}


def save_figure(
    exhibit: str, bases: Sequence[Recipe], seeds: int, store: ResultStore, path: Path | str
) -> dict[str, Any]:
    """Draw into a file, in the format that its suffix says, and return the numbers; see `draw_figure`."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"a figure is saved as {', '.join(FORMATS)}, got {path.name!r}")
    figure, numbers = draw_figure(exhibit, bases, seeds, store)
    write_atomically(path, lambda temporary: figure.savefig(temporary, dpi=150))
    return numbers


def _missing(exhibit: str, bases: Sequence[Recipe], seeds: int, store: ResultStore) -> list[str]:
    """The runs that are not there, in one line for each data set, network and method."""
    lines = []
    for base in bases:
        for method in EXHIBITS[exhibit]:
            absent = [str(seed) for seed in range(seeds) if job_of(base, method, seed) not in store]
            if absent:
                place = f"{base.model} on {Path(base.dataset).name}"
                lines.append(f"{place}, {method}, seed{'s' if len(absent) > 1 else ''} {', '.join(absent)}")
    return lines
