"""Writing the results of a grid: tables in every format, figures with their numbers, and the HTML page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from singleshot.common.files import write_text
from singleshot.grid.store import ResultStore
from singleshot.grid.training_job import dataset_name
from singleshot.paper.experiments import EVIDENCE, SELECTED_SMOOTHING, PaperGrid, trained_method
from singleshot.paper.figures import save_figure
from singleshot.paper.methods import base_recipe, job_of
from singleshot.paper.table_formats import FORMATS
from singleshot.paper.tables import TABLES, Table, build_table, evidence_table
from singleshot.reporting.page import ModelReport, run_report, write_page
from singleshot.training.recipe import Recipe

MAX_METHODS_ON_PAGE = 8
FIRST_METHODS = (
    *("baseline", "vwci", "passes", SELECTED_SMOOTHING, "focal"),
    *("vwci_total_variation", "vwci_epistemic", "ci_0.1"),
)
"""The methods that the page shows before any others."""


@dataclass
class Output:
    """The written tables and the numbers of tables and figures, by file name without suffix."""

    tables: dict[str, Table] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)  # figures that could not be drawn, with the reason

    def add(self, name: str, table: Table, folder: Path) -> None:
        """Write a table in every format."""
        self.tables[name], self.numbers[name] = table, table.to_dict()
        for suffix, convert in FORMATS.values():
            write_text(folder / "tables" / f"{name}{suffix}", convert(table))


def write_output(grids: Sequence[PaperGrid], store: ResultStore, folder: Path) -> Output:
    """Write ``folder/tables`` and ``folder/figures`` from the finished runs."""
    output = Output()
    for grid in grids:
        if grid.regime is not None:
            table = evidence_table(grid.regime, grid.seeds, store)
            output.add(f"{EVIDENCE}-{grid.regime}", table, folder)
            continue
        for experiment in grid.experiments:
            if experiment in TABLES:
                for base in grid.bases:
                    table = build_table(experiment, base, grid.seeds, store)
                    output.add(_file_name(experiment, [base]), table, folder)
                continue
            name = _file_name(experiment, grid.bases)
            path = folder / "figures" / name
            try:
                numbers = save_figure(experiment, grid.bases, grid.seeds, store, path.with_name(f"{name}.png"))
            except ValueError as error:
                output.missing.append(f"{name}: {error}")
                continue
            write_text(path.with_name(f"{name}.json"), json.dumps(numbers, indent=1) + "\n")
            output.numbers[name] = numbers
    return output


def _file_name(experiment: str, bases: Sequence[Recipe]) -> str:
    """Return a name that differs for other networks and for another scale."""
    dataset, models = bases[0].dataset, [base.model for base in bases]
    is_paper = bases[0] == base_recipe("paper", dataset=dataset, model=models[0])
    return "-".join([experiment, dataset_name(dataset), *models, *(["paper"] if is_paper else [])])


def write_grid_page(
    grid: PaperGrid, store: ResultStore, runs: Path, path: Path, *, data_root: Path | None = None
) -> None:
    """Write the page of the first network: one run per method, without those that hold images out.

    There is no page if none of the finished runs is on this machine.
    """
    base = grid.bases[0]
    names = dict.fromkeys([name for name in FIRST_METHODS if name in grid.methods] + list(grid.methods))
    trained = [one for name in names if (one := trained_method(name, base, store)) is not None]
    unique = {job.key: job for job in (job_of(base, name, seed=0) for name in trained) if not job.recipe.holds_out}
    jobs = [job for job in unique.values() if job in store and (runs / job.key).is_dir()]
    if not jobs:
        return

    def reports() -> Iterator[ModelReport]:
        for job in jobs[:MAX_METHODS_ON_PAGE]:
            yield run_report(runs / job.key, name=job.label, data_root=data_root)

    shown = "" if len(jobs) <= MAX_METHODS_ON_PAGE else f" ({MAX_METHODS_ON_PAGE} of {len(jobs)} methods)"
    title = f"{base.model} on {dataset_name(base.dataset)}: can its scores be trusted?{shown}"
    write_page(reports(), path, title=title)
