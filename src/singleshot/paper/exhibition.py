"""From results to files: every table in every format, every figure, and the numbers behind them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from singleshot.common.files import write_text
from singleshot.grid.job import Job, job_of
from singleshot.grid.store import ResultStore, dataset_name
from singleshot.paper.exhibits import CHOSEN_SMOOTHING, EXHIBITS, Grid, chosen_smoothing
from singleshot.paper.figures import save_figure
from singleshot.paper.methods import base_recipe, method_behind
from singleshot.paper.table_formats import FORMATS
from singleshot.paper.tables import Table, build_table
from singleshot.report.page import ModelReport, run_report, write_page
from singleshot.report.page.inspection import SMALL_IMAGE_SIZE
from singleshot.training.recipe import Recipe

SUFFIXES = {"text": ".txt", "markdown": ".md", "latex": ".tex", "csv": ".csv"}


@dataclass
class Exhibition:
    """What was made of the results."""

    tables: dict[str, Table] = field(default_factory=dict)  # by the name of their files
    figures: dict[str, Path] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)  # behind tables and figures, ready for JSON
    missing: list[str] = field(default_factory=list)  # what could not be made, and why


def exhibit_all(grids: Sequence[Grid], store: ResultStore, folder: Path) -> Exhibition:
    """Write ``folder/tables`` and ``folder/figures``; a partial store gives partial tables."""
    made = Exhibition()
    for grid in grids:
        for exhibit in grid.exhibits:
            if exhibit.startswith("table"):
                _write_tables(exhibit, grid, store, folder, made)
            else:
                _write_figure(exhibit, grid, store, folder, made)
    return made


def _name(exhibit: str, bases: Sequence[Recipe]) -> str:
    """Of its files: those of other networks or another scale do not take their place."""
    dataset, models = bases[0].dataset, [base.model for base in bases]
    papers = base_recipe("paper", dataset=dataset, model=models[0])
    return "-".join([exhibit, dataset_name(dataset), *models, *(["paper"] if bases[0] == papers else [])])


def _write_tables(exhibit: str, grid: Grid, store: ResultStore, folder: Path, made: Exhibition) -> None:
    for base in grid.bases:
        name = _name(exhibit, [base])
        table = build_table(exhibit, base, grid.seeds, store)
        for form, written in FORMATS.items():
            write_text(folder / "tables" / f"{name}{SUFFIXES[form]}", written(table))
        made.tables[name] = table
        made.numbers[name] = table.to_dict()


def _write_figure(exhibit: str, grid: Grid, store: ResultStore, folder: Path, made: Exhibition) -> None:
    name = _name(exhibit, grid.bases)
    path = folder / "figures" / f"{name}.png"
    try:
        numbers = save_figure(exhibit, grid.bases, grid.seeds, store, path)
    except ValueError as error:
        made.missing.append(f"{name}: {error}")
        return
    write_text(path.with_suffix(".json"), json.dumps(numbers, indent=1) + "\n")
    made.figures[name] = path
    made.numbers[name] = numbers


MOST_METHODS = 8
"""More than these side by side nobody reads, and each takes seconds."""
FIRST = ("baseline", "vwci", "passes", CHOSEN_SMOOTHING, "focal", "vwci_total_variation", "vwci_epistemic", "ci_0.1")
"""The methods that are shown before any others: the right baselines, and what they are to be compared with."""


def write_grid_page(
    grids: Sequence[Grid], store: ResultStore, runs: Path, path: Path, *, data_root: Path | None = None
) -> bool:
    """Write the page; False where no finished run of the first network is on this machine."""
    grid = grids[0]
    base = grid.bases[0]
    jobs = [job for job in _jobs_of_first_seed(grid, store) if job in store and (runs / job.key).is_dir()]
    if not jobs:
        return False

    def reports() -> Iterator[ModelReport]:
        for job in jobs[:MOST_METHODS]:
            method = method_behind(job.recipe, starts_from_another=job.start is not None)
            yield run_report(runs / job.key, name=method.title, data_root=data_root, image_size=SMALL_IMAGE_SIZE)

    shown = "" if len(jobs) <= MOST_METHODS else f" ({MOST_METHODS} of {len(jobs)} methods)"
    title = f"{base.model} on {Path(base.dataset).name}: can its scores be trusted?{shown}"
    write_page(reports(), path, title=title)
    return True


def _jobs_of_first_seed(grid: Grid, store: ResultStore) -> list[Job]:
    """One run of each method, those that hold images out left aside: they are trained on less."""
    base = grid.bases[0]
    asked = dict.fromkeys(name for exhibit in grid.exhibits for name in EXHIBITS[exhibit])
    names = [*(name for name in FIRST if name in asked), *(name for name in asked if name not in FIRST)]
    chosen = {CHOSEN_SMOOTHING: chosen_smoothing(base, store)}
    jobs = (job_of(base, chosen.get(name) or name, seed=0) for name in names if chosen.get(name, name) is not None)
    return list({job.key: job for job in jobs if not job.recipe.validation}.values())
