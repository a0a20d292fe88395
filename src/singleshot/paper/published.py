"""The numbers printed in the paper: Tables 1, 2 and 3, and Tables A and B of the supplement.

``published.json`` holds them with the digits of the paper, so that the two can be compared by eye.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from statistics import fmean, stdev
from typing import Any

import msgspec

from singleshot.paper.methods import CI

METRICS = ("accuracy", "ece", "mce", "nll", "brier")
BETTER = {metric: max if metric == "accuracy" else min for metric in METRICS}
"""Returns the best of several values of a metric."""
CI_MEAN = "ci"
"""The row with the mean of CI over β."""
CI_ORACLE = "ci_oracle"
"""The row with the best β of CI, selected on the test images."""
_SUPPLEMENT = ("A", "B")


@dataclass(frozen=True)
class PublishedRow:
    """One row of a table. Accuracy is a fraction; ``std`` is set where the paper prints mean ± standard deviation."""

    table: str
    dataset: str
    model: str
    method: str
    metrics: dict[str, float]
    std: dict[str, float] | None = None


def published_rows(
    table: str | None = None, *, dataset: str | None = None, model: str | None = None
) -> list[PublishedRow]:
    """Return the published rows in the order of the paper, optionally of one table, data set or model.

    >>> [row.method for row in published_rows("3", dataset="cifar100", model="vgg16")]
    ['baseline', 'vwci', 'vwci_star']
    >>> baseline, ci, *_ = published_rows("1", dataset="tiny_imagenet", model="resnet34")
    >>> baseline.metrics
    {'accuracy': 0.5082, 'ece': 0.067, 'mce': 0.147, 'nll': 2.05, 'brier': 0.628}
    >>> ci.metrics["ece"], ci.std["ece"]
    (0.134, 0.079)
    """
    rows = [_row(name, values) for name, content in _content()["tables"].items() for values in content["rows"]]
    wanted = {"table": table, "dataset": dataset, "model": model}
    for field, value in wanted.items():
        known = dict.fromkeys(getattr(row, field) for row in rows)
        if value is not None and value not in known:
            raise ValueError(f"the paper has no {field} {value!r}; it has {', '.join(known)}")
    return [row for row in rows if all(value in (None, getattr(row, field)) for field, value in wanted.items())]


def rows_beside(table: str, *, dataset: str, model: str) -> dict[str, PublishedRow]:
    """Return the published rows to print beside measured ones, by method; empty if the paper has none.

    A network that is missing in the table is looked up in the supplement.

    >>> row = rows_beside("1", dataset="cifar100", model="resnet18")["ci"]
    >>> row.table, row.metrics["accuracy"], row.std["accuracy"]
    ('B', 0.7541, 0.0041)
    >>> rows_beside("1", dataset="digits", model="resnet18")
    {}
    """
    rows = [row for row in published_rows() if (row.dataset, row.model) == (dataset, model)]
    own = {row.method: row for row in rows if row.table == table}
    supplement = {row.method: row for row in rows if row.table in _SUPPLEMENT}
    return own or ({**supplement, **_ci_rows(supplement)} if supplement else {})


def _ci_rows(rows: dict[str, PublishedRow]) -> dict[str, PublishedRow]:
    """Return the two rows of Table 1 that derive from the five values of β."""
    values = {metric: [rows[beta].metrics[metric] for beta in CI] for metric in METRICS}
    digits = {metric: 4 if metric == "accuracy" else 3 for metric in METRICS}
    mean = {metric: round(fmean(values[metric]), digits[metric]) for metric in METRICS}
    std = {metric: round(stdev(values[metric]), digits[metric]) for metric in METRICS}
    best = {metric: BETTER[metric](values[metric]) for metric in METRICS}
    place = rows[CI[0]].table, rows[CI[0]].dataset, rows[CI[0]].model
    return {
        CI_MEAN: PublishedRow(*place, CI_MEAN, mean, std),
        CI_ORACLE: PublishedRow(*place, CI_ORACLE, best),
    }


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = msgspec.json.decode(files(__package__).joinpath("published.json").read_bytes())
    return content


def _row(table: str, values: dict[str, Any]) -> PublishedRow:
    place = (table, values["dataset"], values["model"], values["method"])
    if not isinstance(values["accuracy"], dict):
        return PublishedRow(*place, _fractions(values))
    mean, std = ({name: values[name][part] for name in METRICS} for part in ("mean", "std"))
    return PublishedRow(*place, _fractions(mean), _fractions(std))


def _fractions(printed: dict[str, Any]) -> dict[str, float]:
    """Return the metrics with accuracy converted from percent, rounded to the printed digits."""
    return {name: round(printed[name] / 100, 4) if name == "accuracy" else printed[name] for name in METRICS}
