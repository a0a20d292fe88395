"""Which published rows stand beside a table of ours, also where they have to be found in another table."""

from __future__ import annotations

from statistics import fmean, stdev

from singleshot.experiments.measurements import BETTER, ORACLE, OVER_BETA
from singleshot.experiments.plan import CI
from singleshot.experiments.published import METRICS, PublishedRow, published

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
    return {**supplement, **_over_beta(supplement)}


def _over_beta(rows: dict[str, PublishedRow]) -> dict[str, PublishedRow]:
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
