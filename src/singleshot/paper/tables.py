"""The tables of the paper: measured numbers beside the published ones, with the rows we add."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from singleshot.common.checks import check_choice, check_size
from singleshot.common.text import jsonable, printable
from singleshot.grid.store import ResultStore
from singleshot.paper.experiments import ADDED, SELECTED_SMOOTHING, PaperGrid, select_smoothing
from singleshot.paper.methods import CI, METHODS
from singleshot.paper.published import BETTER, CI_MEAN, CI_ORACLE, METRICS, PublishedRow, rows_beside
from singleshot.paper.seed_means import TEMPERATURE_SCALING, Estimate, Runs, sample_deviation
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
NO_RUNS: dict[str, float | None] = {"mean": None, "standard_error": None, "seeds": 0}


@dataclass(frozen=True)
class Row:
    """One method: measured numbers beside the published ones, by metric, and its training time."""

    method: str
    title: str
    measured: dict[str, Estimate]  # empty without runs
    deviations: dict[str, float | None]  # over β; empty for other rows than the mean over β
    paper: PublishedRow | None
    time: Estimate | None  # processor time of training relative to the baseline
    added: bool  # not in the table of the paper
    remark: str | None

    @property
    def seeds(self) -> int:
        """Number of seeds of every measured number."""
        return self.measured["accuracy"].seeds if self.measured else 0

    def numbers(self) -> dict[str, dict[str, float | None]]:
        """Return plain values by metric for JSON and CSV; missing and infinite values become None."""
        paper = {} if self.paper is None else self.paper.metrics
        paper_std = {} if self.paper is None else self.paper.std or {}
        return {
            metric: {
                **(jsonable(self.measured[metric]) if self.measured else NO_RUNS),
                "std_over_beta": self.deviations.get(metric),
                "paper": paper.get(metric),
                "paper_std": paper_std.get(metric),
            }
            for metric in METRICS
        }


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
        """The table, network, data set, scale and number of seeds, and the number of missing runs."""
        seeds = "1 seed" if self.seeds == 1 else f"{self.seeds} seeds (mean ± standard error)"
        name = f"Table {self.experiment.removeprefix('table')} of the paper"
        missing = f" {self.missing} of {self.runs} runs are missing." if self.missing else ""
        return f"{name}, measured with {self.model} on {self.dataset}: {self.scale}, {seeds}.{missing}"

    @property
    def best(self) -> dict[str, set[str]]:
        """The methods with the best measured mean of each metric, among the eligible rows."""
        best = {}
        for metric in METRICS:
            means = {row.method: row.measured[metric].mean for row in eligible_rows(self.rows)}
            value = BETTER[metric](means.values(), default=math.nan)
            best[metric] = {method for method, mean in means.items() if mean == value}
        return best

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        best = self.best
        rows = [
            {
                "method": row.method,
                "title": row.title,
                "added": row.added,
                "seeds": row.seeds,
                "time_ratio": None if row.time is None else vars(row.time),
                "remark": row.remark,
                "metrics": {
                    metric: {**fields, "best": row.method in best[metric]} for metric, fields in row.numbers().items()
                },
            }
            for row in self.rows
        ]
        return {**vars(self), "caption": self.caption, "rows": rows, "notes": list(self.notes)}


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
    """Return a table of the paper for the data set and network of a base recipe; missing runs leave gaps."""
    check_choice("experiment", experiment, tuple(TABLES))
    runs = Runs(base, check_size("seeds", seeds, least=1), store)
    paper = rows_beside(experiment.removeprefix("table"), dataset=base.dataset, model=base.model)
    rows = [_row(runs, method, paper.get(method)) for method in TABLES[experiment]]
    rows += [_row(runs, method, added=True) for method in ADDED]
    jobs = PaperGrid((experiment,), (base,), seeds).jobs(store)
    results = [store[job] for job in jobs if job in store]
    eligible, measured = eligible_rows(rows), measured_rows(rows)
    return Table(
        experiment=experiment,
        dataset=printable(runs.dataset or base.dataset),
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
            paper_note(experiment, base, [row.paper for row in rows if row.paper]),
            time_note([(row.time, row.seeds) for row in measured]),
            *run_notes(results),
        ),
    )


def _row(runs: Runs, method: str, paper: PublishedRow | None = None, *, added: bool = False) -> Row:
    name = (select_smoothing(runs.base, runs.store) or method) if method == SELECTED_SMOOTHING else method
    return Row(
        method=name,
        title=TITLES[name],
        measured=runs.estimates(method),
        deviations=_deviations_over_beta(runs) if method == CI_MEAN else {},
        paper=paper,
        time=runs.time_ratio(method),
        added=added,
        remark=_remark(runs, method),
    )


def _deviations_over_beta(runs: Runs) -> dict[str, float | None]:
    """Return the sample standard deviation over β of the means over seeds, as in the paper."""
    by_beta = [values.values() for values in runs.values_by_beta().values() if values]
    return {metric: sample_deviation([fmean(run[metric] for run in each) for each in by_beta]) for metric in METRICS}


def _remark(runs: Runs, method: str) -> str | None:
    if method in (CI_MEAN, CI_ORACLE):
        found = len(runs.values_by_beta())
        if 0 < found < len(CI):
            return f"only {found} of {len(CI)} β have runs"
    if method in TEMPERATURE_SCALING:
        results = runs.results(method).values()
        bounded = sum(result.rescaled.bounded for result in results if result.rescaled)
        if bounded:
            return f"no finite temperature in {bounded} of {len(results)} runs (a bound was used)"
    return None
