"""The paper's tables, measured again: our numbers beside its own, and the rows that its comparison lacks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from singleshot.checks import check_choice, check_size
from singleshot.experiments.measurements import SECONDS, values_by_seed
from singleshot.experiments.paper_rows import paper_rows
from singleshot.experiments.plan import ADDED, CI, Grid, chosen_smoothing
from singleshot.experiments.published import METRICS, PublishedRow
from singleshot.experiments.scales import base_recipe
from singleshot.experiments.store import ResultStore
from singleshot.experiments.table_rows import BETTER, ORACLE, OVER_BETA, Row, build_row
from singleshot.terminal import printable
from singleshot.training.recipe import Recipe

_EACH_BETA = ("baseline", *reversed(CI), "vwci")
TABLES: dict[str, tuple[str, ...]] = {
    "table1": ("baseline", OVER_BETA, "vwci", ORACLE),
    "table2": ("ts_case1", "ts_case2", "vwci"),
    "table3": ("baseline", "vwci", "vwci_star"),
    "tableA": _EACH_BETA,
    "tableB": _EACH_BETA,
}
"""The rows of each table in the paper's order; ours follow."""


@dataclass(frozen=True)
class Table:
    """One table for one data set and network."""

    exhibit: str
    dataset: str
    model: str
    scale: str  # how large network, images and training were
    seeds: int  # how many each row should have
    runs: int  # that are known to be needed
    missing: int  # of these
    baseline_seconds: float | None
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    @property
    def caption(self) -> str:
        """What was measured, at which scale, with how many seeds, and what is missing."""
        seeds = "1 seed" if self.seeds == 1 else f"{self.seeds} seeds (mean ± standard error)"
        name = f"Table {self.exhibit.removeprefix('table')} of the paper"
        missing = f" {self.missing} of {self.runs} runs are missing." if self.missing else ""
        return f"{name}, measured with {self.model} on {self.dataset}: {self.scale}, {seeds}.{missing}"

    @property
    def best(self) -> dict[str, frozenset[str]]:
        """By metric, the methods with the best measured mean; CI[Oracle] is never one of them."""
        return {metric: self._best(metric) for metric in METRICS}

    def _best(self, metric: str) -> frozenset[str]:
        found = ((row.method, row.cells[metric].measured) for row in self.rows if row.eligible)
        means = {method: estimate.mean for method, estimate in found if estimate is not None}
        best = BETTER[metric](means.values(), default=math.nan)
        return frozenset(method for method, mean in means.items() if mean == best)

    def time_ratio(self, row: Row) -> float | None:
        """How many times as long as the baseline a run of this row was trained."""
        return row.seconds.mean / self.baseline_seconds if row.seconds and self.baseline_seconds else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        best = self.best
        kept = ("exhibit", "dataset", "model", "scale", "seeds", "runs", "missing", "caption")
        rows = [
            {
                "method": row.method,
                "title": row.title,
                "added": row.added,
                "seeds": row.seeds,
                "time_ratio": self.time_ratio(row),
                "remark": row.remark,
                "metrics": {
                    metric: {**cell.to_dict(), "best": row.method in best[metric]} for metric, cell in row.cells.items()
                },
            }
            for row in self.rows
        ]
        return {**{name: getattr(self, name) for name in kept}, "rows": rows, "notes": list(self.notes)}


def build_table(exhibit: str, base: Recipe, seeds: int, store: ResultStore) -> Table:
    """A table of the paper for the data set and network of a base recipe, from what is there of its runs.

    Args:
        exhibit: ``table1``, ``table2``, ``table3``, ``tableA`` or ``tableB``.
        base: what all methods share.
        seeds: how many each row should have.
        store: the finished runs; missing ones leave their mark, and never stop the table.
    """
    check_choice("exhibit", exhibit, tuple(TABLES))
    check_size("seeds", seeds, least=1)
    paper = paper_rows(exhibit.removeprefix("table"), dataset=base.dataset, model=base.model)
    rows = [build_row(method, base, seeds, store, paper=paper.get(method)) for method in TABLES[exhibit]]
    rows += [build_row(method, base, seeds, store, added=True) for method in ADDED]
    needed = [job.key for job in Grid((exhibit,), (base,), seeds).jobs(store)]
    there = [store.results[key] for key in needed if key in store.results]
    baseline = [run[SECONDS] for run in values_by_seed(base, "baseline", seeds, store).values()]
    return Table(
        exhibit=exhibit,
        dataset=printable(Path(base.dataset).name or base.dataset),
        model=base.model,
        scale=_scale(base),
        seeds=seeds,
        runs=len(needed),
        missing=len(needed) - len(there),
        baseline_seconds=sum(baseline) / len(baseline) if baseline else None,
        rows=tuple(rows),
        notes=(
            *_notes_on_rows(rows),
            *_notes_on_smoothing(base, store),
            *_notes_on_paper(exhibit, base, [paper[row.method] for row in rows if row.has_paper]),
            *_notes_on_time([result.environment for result in there]),
        ),
    )


def _scale(recipe: Recipe) -> str:
    images = "all training images" if recipe.train_images is None else f"{recipe.train_images:,} training images"
    size = f"{recipe.image_size}×{recipe.image_size} pixels"
    return f"width {recipe.width:g}, {size}, {images}, {recipe.epochs} epochs"


def _notes_on_rows(rows: list[Row]) -> Iterator[str]:
    methods = {row.method for row in rows}
    oracle = ""
    if ORACLE in methods:
        oracle = "; CI[Oracle] is not eligible: it takes the best β of each column by looking at the test images"
    yield f"The best measured value of each column is marked{oracle}."
    if "ts_case1" in methods:
        yield (
            "TS is the baseline with its temperature fitted on its training images (case 1), or trained on 90 % of "
            "them and fitted on the other 10 % (case 2)."
        )
    if "vwci_star" in methods:
        yield "VWCI* starts from a trained baseline, whose time is counted in."
    yield from (f"{row.title}: {row.remark}." for row in rows if row.remark)


def _notes_on_smoothing(base: Recipe, store: ResultStore) -> Iterator[str]:
    if chosen_smoothing(base, store) is None:
        yield "The ε of label smoothing is not chosen yet: its runs on 90 % of the training images are missing."
    else:
        yield (
            "The ε of label smoothing was chosen by the NLL on held-out images, 10 % of the training images, with one "
            "seed; the row is trained on all of them."
        )


def _notes_on_paper(exhibit: str, base: Recipe, shown: list[PublishedRow]) -> Iterator[str]:
    if not shown:
        yield f"The paper has no numbers for {base.model} on this data set in this table."
        return
    source, table = shown[0].table, exhibit.removeprefix("table")
    lacks = f", since Table {table} has no {base.model} on {base.dataset}" if source != table else ""
    if source != table and OVER_BETA in (row.method for row in shown):
        lacks += " (CI and CI[Oracle] follow from its five β)"
    scale = _scale(base_recipe("paper", dataset=base.dataset, model=base.model))
    yield f"Paper: Table {source}{lacks}; {scale}; it states no number of seeds."


def _notes_on_time(environments: list[dict[str, Any]]) -> Iterator[str]:
    yield "Time: mean training time of one run over the baseline's; searches for β or ε are not counted."
    if len({tuple(str(found.get(name)) for name in ("machine", "cores", "torch")) for found in environments}) > 1:
        yield "The runs were made on unlike machines, which their times show as well."
