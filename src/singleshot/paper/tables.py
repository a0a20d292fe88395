"""The paper's tables, measured again: our numbers beside its own, and the rows that its comparison lacks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from singleshot.common.checks import check_choice, check_size
from singleshot.common.text import printable
from singleshot.grid.store import ResultStore
from singleshot.paper.exhibits import ADDED, CI, Grid
from singleshot.paper.measurements import BETTER, ORACLE, OVER_BETA
from singleshot.paper.published import METRICS
from singleshot.paper.table_notes import (
    notes_on_paper,
    notes_on_rows,
    notes_on_runs,
    notes_on_smoothing,
    notes_on_time,
    scale_text,
)
from singleshot.paper.table_rows import Row, build_row, eligible_rows, paper_rows
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
        """By metric, the methods with the best measured mean; see `eligible_rows`."""
        return {metric: self._best(metric) for metric in METRICS}

    def _best(self, metric: str) -> frozenset[str]:
        found = ((row.method, row.cells[metric].measured) for row in eligible_rows(self.rows))
        means = {method: estimate.mean for method, estimate in found if estimate is not None}
        best = BETTER[metric](means.values(), default=math.nan)
        return frozenset(method for method, mean in means.items() if mean == best)

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
                "time_ratio": None if row.time is None else vars(row.time),
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
    needed = Grid((exhibit,), (base,), seeds).jobs(store)
    there = [store[job] for job in needed if job in store]
    return Table(
        exhibit=exhibit,
        dataset=printable(Path(base.dataset).name or base.dataset),
        model=base.model,
        scale=scale_text(base, there),
        seeds=seeds,
        runs=len(needed),
        missing=len(needed) - len(there),
        rows=tuple(rows),
        notes=(
            *notes_on_rows(rows),
            *notes_on_smoothing(base, store),
            *notes_on_paper(exhibit, base, [paper[row.method] for row in rows if row.has_paper]),
            *notes_on_time(rows),
            *notes_on_runs(there),
        ),
    )
