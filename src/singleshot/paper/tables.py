"""The tables of the paper: measured numbers beside the published ones, with the rows we add."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from singleshot.common.checks import check_choice, check_size
from singleshot.common.environment import HARDWARE
from singleshot.common.text import jsonable, printable
from singleshot.grid.job import Result
from singleshot.grid.store import ResultStore
from singleshot.paper.experiments import (
    ADDED,
    EVIDENCE,
    SELECTED_SMOOTHING,
    PaperGrid,
    select_smoothing,
    trained_method,
)
from singleshot.paper.methods import CI, EPSILONS, METHODS, TEMPERATURE_SCALING, base_recipe
from singleshot.paper.published import BETTER, CI_MEAN, CI_ORACLE, METRICS, PublishedRow, rows_beside
from singleshot.paper.regimes import REGIMES
from singleshot.paper.seed_means import Estimate, Runs, sample_deviation
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
        is_of_paper = self.experiment.startswith("table")
        name = f"Table {self.experiment.removeprefix('table')} of the paper" if is_of_paper else "Evidence"
        missing = f" {self.missing} of {self.runs} runs are missing." if self.missing else ""
        return f"{name}, measured with {self.model} on {self.dataset}: {self.scale}, {seeds}.{missing}"

    @property
    def best(self) -> dict[str, set[str]]:
        """The methods with the best measured mean of each metric, among the eligible rows."""
        best = {}
        for metric in METRICS:
            means = {row.method: row.measured[metric].mean for row in eligible_rows(self.rows, self.seeds)}
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


def eligible_rows(rows: Sequence[Row], seeds: int) -> list[Row]:
    """Return the rows that may be marked as best: those with all seeds, if they are the majority.

    The oracle is not eligible because it selects β on the test images.
    """
    candidates = measured_rows(rows)
    eligible = [row for row in candidates if row.seeds == seeds]
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
    return _table(PaperGrid((experiment,), (base,), seeds), runs, rows)


def evidence_table(regime: str, seeds: int, store: ResultStore) -> Table:
    """Return the table of a regime; missing runs leave gaps."""
    check_choice("regime", regime, tuple(REGIMES))
    recipe, methods = REGIMES[regime].recipe, REGIMES[regime].rows
    runs = Runs(recipe, check_size("seeds", seeds, least=1), store)
    return _table(PaperGrid((EVIDENCE,), (recipe,), seeds, regime), runs, [_row(runs, method) for method in methods])


def _table(grid: PaperGrid, runs: Runs, rows: Sequence[Row]) -> Table:
    (experiment,), base, seeds, store = grid.experiments, runs.base, runs.seeds, runs.store
    jobs = grid.jobs(store)
    results = [store[job] for job in jobs if job in store]
    return Table(
        experiment=experiment,
        dataset=printable(runs.dataset),
        model=base.model,
        scale=_describe_scale(base, results),
        seeds=seeds,
        runs=len(jobs),
        missing=len(jobs) - len(results),
        rows=tuple(rows),
        notes=(
            *_row_notes(rows, seeds),
            *(_smoothing_notes(runs) if SELECTED_SMOOTHING in grid.methods else ()),
            *_paper_notes(experiment, base, rows),
            *_run_notes(results),
        ),
    )


def _row(runs: Runs, method: str, paper: PublishedRow | None = None, *, added: bool = False) -> Row:
    name = trained_method(method, runs.base, runs.store) or method
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


def _describe_scale(recipe: Recipe, results: Sequence[Result] = ()) -> str:
    """Return the size of the network, the images and the training, and the size of the data set if it has results."""
    images = "all" if recipe.train_images is None else f"{recipe.train_images:,}"
    if results:
        of = "" if recipe.train_images is None else " of"
        images += f"{of} {results[0].data['train']:,} training images, {results[0].data['test']:,} test images"
    else:
        images += " training images"
    size = f"{recipe.image_size}×{recipe.image_size} pixels"
    return f"width {recipe.width:g}, {size}, {images}, {recipe.epochs} epochs"


def _row_notes(rows: Sequence[Row], seeds: int) -> Iterator[str]:
    """Explain the marked values and the rows."""
    methods, eligible, measured = {row.method for row in rows}, eligible_rows(rows, seeds), measured_rows(rows)
    oracle = ""
    if CI_ORACLE in methods:
        oracle = "; CI[Oracle] is not eligible: it takes the best β of each column by looking at the test images"
    if measured and not eligible:
        yield "No value is marked as the best of its column while most rows lack seeds."
    else:
        fewer = ", of the rows with all seeds" if len(eligible) < len(measured) else ""
        yield f"The best measured value of each column is marked{fewer}{oracle}."
    if "ts_case1" in methods:
        yield (
            "TS is the baseline with its temperature fitted on its training images (case 1), or trained on 90 % of "
            "them and fitted on the other 10 % (case 2)."
        )
    if methods.issuperset(CI):
        yield "β was not selected on held-out images: picking the best row of this table amounts to CI[Oracle]."
    if methods & {"vwci_one_gradient", "auto_vwci"}:
        yield "k = 1: one of the passes carries the gradients. Self-tuned VWCI has k = 1, too."
    if "vwci_scaled" in methods:
        yield "c · (1 − BC): c is set in each batch so that the mean weight is that of total variation."
    if "vwci_star" in methods:
        yield "VWCI* starts from a trained baseline; its time includes that of the baseline."
    yield from (f"{row.title}: {row.remark}." for row in rows if row.remark)


def _smoothing_notes(runs: Runs) -> Iterator[str]:
    """Explain how the ε of label smoothing was selected, and whether a better one may lie outside the candidates."""
    selected = select_smoothing(runs.base, runs.store)
    if selected is None:
        yield "The ε of label smoothing is not selected yet: its runs on 90 % of the training images are missing."
        return
    yield (
        "The ε of label smoothing was selected by the NLL on held-out images, 10 % of the training images, with one "
        "seed; the row is trained on all of them."
    )
    for end, epsilon in (("smallest", EPSILONS[0]), ("largest", EPSILONS[-1])):
        if selected == f"smoothing_{epsilon:g}":
            candidates = ", ".join(f"{one:g}" for one in EPSILONS)
            yield f"The selected ε is the {end} candidate ({candidates}): a value beyond it may be better."


def _paper_notes(experiment: str, base: Recipe, rows: Sequence[Row]) -> Iterator[str]:
    """Name the table of the paper that the published rows come from, and explain the training times."""
    published = [row.paper for row in rows if row.paper]
    if published:
        source, table = published[0].table, experiment.removeprefix("table")
        reason = f", since Table {table} has no {base.model} on {base.dataset}" if source != table else ""
        if source != table and CI_MEAN in (row.method for row in published):
            reason += " (CI and CI[Oracle] follow from its five β)"
        scale = _describe_scale(base_recipe("paper", dataset=base.dataset, model=base.model))
        yield f"Paper: Table {source}{reason}; {scale}; the number of seeds is not stated."
    elif experiment != EVIDENCE:
        yield f"The paper has no numbers for {base.model} on this data set in this table."
    measured = measured_rows(rows)
    unknown = "" if all(row.time for row in measured) else "; a dash if it is not known"
    if any(row.time and row.time.seeds != row.seeds for row in measured):
        unknown += "; in brackets the number of seeds with known times, if it differs"
    yield (
        "Time: processor time of training relative to the baseline with the same seed, mean over seeds, without the "
        f"search for β or ε{unknown}."
    )


def _run_notes(results: Sequence[Result]) -> Iterator[str]:
    """Report different versions, machines or images among the runs."""
    names = {"revision": "revisions", "singleshot": "singleshot", "torch": "torch"}
    found = {
        title: sorted({printable(str(one.environment.get(name))) for one in results}) for name, title in names.items()
    }
    different = [f"{title} {', '.join(versions)}" for title, versions in found.items() if len(versions) > 1]
    if different:
        yield f"Runs of {'; '.join(different)}."
    machines = ({str(one.environment[name]) for one in results if name in one.environment} for name in HARDWARE)
    if any(len(values) > 1 for values in machines):  # an unknown value is no difference
        yield "The runs were made on different machines, which affects their times."
    if any(result.data != results[0].data for result in results):
        yield "The runs were made with different images under the name of this data set."
