"""From results to files: every table in every format, every figure, and the numbers behind them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from singleshot.experiments.figures import save_figure
from singleshot.experiments.plan import Grid
from singleshot.experiments.scales import base_recipe
from singleshot.experiments.store import ResultStore, dataset_name
from singleshot.experiments.table_formats import FORMATS
from singleshot.experiments.tables import Table, build_table
from singleshot.files import write_text
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
