"""The tables of the paper: measured numbers beside the published ones, with the rows we add."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from singleshot.common.checks import check_choice, check_size
from singleshot.common.text import printable
from singleshot.grid.store import ResultStore
from singleshot.paper.estimates import (
    TEMPERATURE_SCALING,
    Estimate,
    results_by_seed,
    sample_deviation,
    time_ratio,
    values_by_beta,
    values_by_seed,
)
from singleshot.paper.experiments import ADDED, SELECTED_SMOOTHING, PaperGrid, select_smoothing
from singleshot.paper.methods import CI, METHODS
from singleshot.paper.published import BETTER, CI_MEAN, CI_ORACLE, METRICS, PublishedRow, rows_beside
from singleshot.paper.table_notes import describe_scale, paper_note, row_notes, run_notes, smoothing_notes, time_note
from singleshot.training.recipe import Recipe

_EACH_BETA = ("baseline", *reversed(CI), "vwci")
TABLES: dict[str, tuple[str, ...]] = {
    "table1": ("baseline", CI_MEAN, "vwci", CI_ORACLE),
    "table2": ("ts_case1", "ts_case2", "vwci"),
    "table3": ("baseline", "vwci", "vwci_star"),
    "tableA": _EACH_BETA,
    "tableB": _EACH_BETA,
}
"""The rows of each table in the order of the paper; added rows follow."""
TITLES = {
    CI_MEAN: "CI, mean ± std over β",
    CI_ORACLE: "CI[Oracle]",
    "ts_case1": "TS (case 1)",
    "ts_case2": "TS (case 2)",
    SELECTED_SMOOTHING: "Label smoothing",
    **{name: method.title for name, method in METHODS.items()},
}


@dataclass(frozen=True)
class Cell:
    """A measured number beside the published one; either may be missing."""

    measured: Estimate | None = None
    is_over_beta: bool = False  # shows the standard deviation over β instead of the standard error over seeds
    deviation: float | None = None  # over β
    paper: float | None = None
    paper_deviation: float | None = None

    def to_dict(self) -> dict[str, float | None]:
        """Return plain values for JSON and CSV; missing and infinite values become None."""
        measured = self.measured
        return {
            "mean": measured.mean if measured and math.isfinite(measured.mean) else None,
            "standard_error": measured.standard_error if measured else None,
            "std_over_beta": self.deviation,
            "seeds": measured.seeds if measured else 0,
            "paper": self.paper,
            "paper_std": self.paper_deviation,
        }


@dataclass(frozen=True)
class Row:
    """One method: a cell per metric, and its training time."""

    method: str
    title: str
    cells: dict[str, Cell]
    time: Estimate | None = None  # processor time of training relative to the baseline
    added: bool = False  # not in the table of the paper
    remark: str | None = None

    @property
    def seeds(self) -> int:
        """Number of seeds behind every measured number."""
        measured = self.cells["accuracy"].measured
        return 0 if measured is None else measured.seeds

    @property
    def has_paper(self) -> bool:
        """Whether the paper has this row."""
        return any(cell.paper is not None for cell in self.cells.values())


@dataclass(frozen=True)
class Table:
    """A table for one data set and network."""

    experiment: str
    dataset: str
    model: str
    scale: str  # size of the network, the images and the training
    seeds: int  # wanted per row
    runs: int  # known to be needed
    missing: int  # of these
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    @property
    def caption(self) -> str:
        """What was measured, at which scale, with how many seeds, and what is missing."""
        seeds = "1 seed" if self.seeds == 1 else f"{self.seeds} seeds (mean ± standard error)"
        name = f"Table {self.experiment.removeprefix('table')} of the paper"
        missing = f" {self.missing} of {self.runs} runs are missing." if self.missing else ""
        return f"{name}, measured with {self.model} on {self.dataset}: {self.scale}, {seeds}.{missing}"

    @property
    def best(self) -> dict[str, set[str]]:
        """The methods with the best measured mean of each metric, among the eligible rows."""
        best = {}
        for metric in METRICS:
            found = {row.method: row.cells[metric].measured for row in eligible_rows(self.rows)}
            means = {method: estimate.mean for method, estimate in found.items() if estimate is not None}
            value = BETTER[metric](means.values(), default=math.nan)
            best[metric] = {method for method, mean in means.items() if mean == value}
        return best

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        best = self.best
        names = ("experiment", "dataset", "model", "scale", "seeds", "runs", "missing", "caption")
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
        return {**{name: getattr(self, name) for name in names}, "rows": rows, "notes": list(self.notes)}


def eligible_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that may be marked as best: those with the most seeds, if they are the majority.

    The oracle is not eligible because it selects β on the test images.
    """
    candidates = measured_rows(rows)
    most = max((row.seeds for row in candidates), default=0)
    eligible = [row for row in candidates if row.seeds == most]
    return eligible if len(eligible) > len(candidates) / 2 else []


def measured_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with runs of their own."""
    return [row for row in rows if row.method != CI_ORACLE and row.seeds]


def build_table(experiment: str, base: Recipe, seeds: int, store: ResultStore) -> Table:
    """Return a table of the paper for the data set and network of a base recipe; missing runs leave gaps.

    Args:
        experiment: ``table1``, ``table2``, ``table3``, ``tableA`` or ``tableB``.
        base: the recipe that all methods share.
        seeds: number of seeds wanted per row.
        store: the finished runs.
    """
    check_choice("experiment", experiment, tuple(TABLES))
    check_size("seeds", seeds, least=1)
    paper = rows_beside(experiment.removeprefix("table"), dataset=base.dataset, model=base.model)
    rows = [_row(method, base, seeds, store, paper=paper.get(method)) for method in TABLES[experiment]]
    rows += [_row(method, base, seeds, store, added=True) for method in ADDED]
    jobs = PaperGrid((experiment,), (base,), seeds).jobs(store)
    results = [store[job] for job in jobs if job in store]
    eligible, measured = eligible_rows(rows), measured_rows(rows)
    return Table(
        experiment=experiment,
        dataset=printable(Path(base.dataset).name or base.dataset),
        model=base.model,
        scale=describe_scale(base, results),
        seeds=seeds,
        runs=len(jobs),
        missing=len(jobs) - len(results),
        rows=tuple(rows),
        notes=(
            *row_notes([row.method for row in rows], len(eligible), len(measured)),
            *(f"{row.title}: {row.remark}." for row in rows if row.remark),
            *smoothing_notes(base, store),
            paper_note(experiment, base, [paper[row.method] for row in rows if row.has_paper]),
            time_note([(row.time, row.seeds) for row in measured]),
            *run_notes(results),
        ),
    )


def _row(
    method: str,
    base: Recipe,
    seeds: int,
    store: ResultStore,
    *,
    paper: PublishedRow | None = None,
    added: bool = False,
) -> Row:
    values = values_by_seed(base, method, seeds, store)
    deviations = _deviations_over_beta(base, seeds, store) if method == CI_MEAN else {}
    name = (select_smoothing(base, store) or method) if method == SELECTED_SMOOTHING else method
    return Row(
        method=name,
        title=TITLES[name],
        cells={
            metric: Cell(
                measured=Estimate.of([run[metric] for run in values.values()]) if values else None,
                is_over_beta=method == CI_MEAN,
                deviation=deviations.get(metric),
                paper=None if paper is None else paper.metrics[metric],
                paper_deviation=None if paper is None or paper.std is None else paper.std[metric],
            )
            for metric in METRICS
        },
        time=time_ratio(base, method, seeds, store),
        added=added,
        remark="; ".join(_remarks(base, method, seeds, store)) or None,
    )


def _deviations_over_beta(base: Recipe, seeds: int, store: ResultStore) -> dict[str, float | None]:
    """Return the sample standard deviation over β of the means over seeds, as in the paper."""
    runs = [values.values() for values in values_by_beta(base, seeds, store).values() if values]
    return {metric: sample_deviation([fmean(run[metric] for run in each) for each in runs]) for metric in METRICS}


def _remarks(base: Recipe, method: str, seeds: int, store: ResultStore) -> Iterator[str]:
    if method in (CI_MEAN, CI_ORACLE):
        found = len(values_by_beta(base, seeds, store))
        if 0 < found < len(CI):
            yield f"only {found} of {len(CI)} β have runs"
    if method in TEMPERATURE_SCALING:
        results = results_by_seed(base, method, seeds, store).values()
        bounded = sum(result.rescaled.bounded for result in results if result.rescaled)
        if bounded:
            yield f"no finite temperature in {bounded} of {len(results)} runs (a bound was used)"
