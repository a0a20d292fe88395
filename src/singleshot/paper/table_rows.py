"""The rows of a table: what several seeds measured of a method, beside what the paper printed of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from singleshot.grid.store import ResultStore
from singleshot.paper.exhibits import CHOSEN_SMOOTHING, CI, chosen_smoothing
from singleshot.paper.measurements import (
    BETTER,
    ORACLE,
    OVER_BETA,
    TEMPERATURE_SCALING,
    Estimate,
    runs_by_seed,
    sample_deviation,
    time_ratio,
    values_by_beta,
    values_by_seed,
)
from singleshot.paper.methods import METHODS
from singleshot.paper.published import METRICS, PublishedRow, published
from singleshot.training.recipe import Recipe

_SUPPLEMENT = ("A", "B")
"""Every network of the paper with every β: A on one data set, B on the other."""


def paper_rows(table: str, *, dataset: str, model: str) -> dict[str, PublishedRow]:
    """The published rows for this data set and network, by method; none where the paper did not measure it.

    Each says by its ``table`` where it is printed. A network that the table lacks is looked up in the supplement.

    >>> row = paper_rows("1", dataset="cifar100", model="resnet18")["ci"]
    >>> row.table, row.metrics["accuracy"], row.std["accuracy"]
    ('B', 0.7541, 0.0041)
    >>> paper_rows("1", dataset="digits", model="resnet18")
    {}
    """
    here = [row for row in published() if (row.dataset, row.model) == (dataset, model)]
    own = {row.method: row for row in here if row.table == table}
    if own:
        return own
    supplement = {row.method: row for row in here if row.table in _SUPPLEMENT}
    return {**supplement, **_published_over_beta(supplement)}


def _published_over_beta(rows: dict[str, PublishedRow]) -> dict[str, PublishedRow]:
    """The two rows of Table 1 that follow from the five β."""
    if not rows:
        return {}
    five = {metric: [rows[beta].metrics[metric] for beta in CI] for metric in METRICS}
    mean = {metric: _as_printed(metric, fmean(values)) for metric, values in five.items()}
    std = {metric: _as_printed(metric, stdev(values)) for metric, values in five.items()}
    best = {metric: BETTER[metric](values) for metric, values in five.items()}
    place = rows[CI[0]]
    return {
        OVER_BETA: PublishedRow(place.table, place.dataset, place.model, OVER_BETA, mean, std),
        ORACLE: PublishedRow(place.table, place.dataset, place.model, ORACLE, best),
    }


def _as_printed(metric: str, value: float) -> float:
    return round(value, 4 if metric == "accuracy" else 3)


TITLES = {
    OVER_BETA: "CI, mean ± std over β",
    ORACLE: "CI[Oracle]",
    "ts_case1": "TS (case 1)",
    "ts_case2": "TS (case 2)",
    CHOSEN_SMOOTHING: "Label smoothing",
    **{name: method.title for name, method in METHODS.items()},
}


@dataclass(frozen=True)
class Cell:
    """A measured number beside the published one; either may be missing."""

    measured: Estimate | None = None
    over_beta: bool = False  # the CI row shows a deviation over β instead of an error over seeds
    deviation: float | None = None  # over β; a single one has none
    paper: float | None = None
    paper_deviation: float | None = None

    def to_dict(self) -> dict[str, float | None]:
        """Plain values, ready for JSON and CSV: what is missing or infinite is None."""
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
    """One method: its cells by metric, and how long it trains."""

    method: str  # its name, as `published` and `methods` have it
    title: str
    cells: dict[str, Cell]
    time: Estimate | None = None  # processor time of training, as a multiple of the baseline's
    added: bool = False  # a row that the paper's table does not have
    remark: str | None = None  # what is unusual about its runs

    @property
    def seeds(self) -> int:
        """How many seeds are behind every measured number of the row."""
        measured = self.cells["accuracy"].measured
        return 0 if measured is None else measured.seeds

    @property
    def has_paper(self) -> bool:
        """Whether a published row stands beside it."""
        return any(cell.paper is not None for cell in self.cells.values())


def eligible_rows(rows: Sequence[Row]) -> list[Row]:
    """Those of which one may be the best of a column: with the most seeds, lest a row win by the seeds it lacks.

    While these are not the most rows there is no best one. The oracle chooses by the test images, and may not be it.
    """
    candidates = measured_rows(rows)
    most = max((row.seeds for row in candidates), default=0)
    eligible = [row for row in candidates if row.seeds == most]
    return eligible if len(eligible) > len(candidates) / 2 else []


def measured_rows(rows: Sequence[Row]) -> list[Row]:
    """Those that have runs of their own; what the oracle has is chosen from others."""
    return [row for row in rows if row.method != ORACLE and row.seeds]


def build_row(
    method: str,
    base: Recipe,
    seeds: int,
    store: ResultStore,
    *,
    paper: PublishedRow | None = None,
    added: bool = False,
) -> Row:
    """The row of a method, from what is there of its runs."""
    values = values_by_seed(base, method, seeds, store)
    deviations = _over_beta(base, seeds, store) if method == OVER_BETA else {}
    named = (chosen_smoothing(base, store) or method) if method == CHOSEN_SMOOTHING else method
    return Row(
        method=named,
        title=TITLES[named],
        cells={
            metric: Cell(
                measured=Estimate.of([run[metric] for run in values.values()]) if values else None,
                over_beta=method == OVER_BETA,
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


def _over_beta(base: Recipe, seeds: int, store: ResultStore) -> dict[str, float | None]:
    """The sample deviation over β of the means over seeds, which the paper prints."""
    runs = [values.values() for values in values_by_beta(base, seeds, store).values() if values]
    return {metric: sample_deviation([fmean(run[metric] for run in each) for each in runs]) for metric in METRICS}


def _remarks(base: Recipe, method: str, seeds: int, store: ResultStore) -> Iterator[str]:
    if method in (OVER_BETA, ORACLE):
        there = len(values_by_beta(base, seeds, store))
        if 0 < there < len(CI):
            yield f"only {there} of {len(CI)} β are there"
    if method in TEMPERATURE_SCALING:
        runs = runs_by_seed(base, method, seeds, store).values()
        bounded = sum(run.rescaled.bounded for run in runs)
        if bounded:
            yield f"no finite temperature in {bounded} of {len(runs)} runs (a bound was taken)"
