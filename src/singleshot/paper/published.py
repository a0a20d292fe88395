"""The paper's own numbers, to put beside one's own: tables 1, 2 and 3, and the supplement's A and B.

They lie in ``published.json`` with the digits the paper prints, so that the two can be compared by eye.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

METRICS = ("accuracy", "ece", "mce", "nll", "brier")


@dataclass(frozen=True)
class PublishedRow:
    """One row of one table, accuracy as a share; ``std`` is there where the paper prints mean ± deviation."""

    table: str
    dataset: str
    model: str
    method: str
    metrics: dict[str, float]
    std: dict[str, float] | None = None


def published(table: str | None = None, *, dataset: str | None = None, model: str | None = None) -> list[PublishedRow]:
    """The published rows in the paper's order: of one table or all, and of one data set or model if asked.

    >>> [row.method for row in published("3", dataset="cifar100", model="vgg16")]
    ['baseline', 'vwci', 'vwci_star']
    >>> baseline, ci, *_ = published("1", dataset="tiny_imagenet", model="resnet34")
    >>> baseline.metrics
    {'accuracy': 0.5082, 'ece': 0.067, 'mce': 0.147, 'nll': 2.05, 'brier': 0.628}
    >>> ci.metrics["ece"], ci.std["ece"]
    (0.134, 0.079)
    """
    rows = [_row(name, values) for name, content in _content()["tables"].items() for values in content["rows"]]
    _check("table", table, (row.table for row in rows))
    _check("dataset", dataset, (row.dataset for row in rows))
    _check("model", model, (row.model for row in rows))
    return [
        row
        for row in rows
        if table in (None, row.table) and dataset in (None, row.dataset) and model in (None, row.model)
    ]


@cache
def _content() -> dict[str, Any]:
    """The file, read once; rows are made anew for each caller, whose dictionaries are then theirs to change."""
    content: dict[str, Any] = json.loads(files(__package__).joinpath("published.json").read_text(encoding="utf-8"))
    return content


def _row(table: str, values: dict[str, Any]) -> PublishedRow:
    place = (table, values["dataset"], values["model"], values["method"])
    if not isinstance(values["accuracy"], dict):
        return PublishedRow(*place, _shares(values))
    mean, std = ({name: values[name][part] for name in METRICS} for part in ("mean", "std"))
    return PublishedRow(*place, _shares(mean), _shares(std))


def _shares(printed: dict[str, Any]) -> dict[str, float]:
    """The metrics alone, accuracy from percent to share, rounded since the division leaves a trace of its own."""
    return {name: round(printed[name] / 100, 4) if name == "accuracy" else printed[name] for name in METRICS}


def _check(what: str, asked: str | None, known: Iterable[str]) -> None:
    names = dict.fromkeys(known)
    if asked is not None and asked not in names:
        raise ValueError(f"the paper has no {what} {asked!r}; there are {', '.join(names)}")
