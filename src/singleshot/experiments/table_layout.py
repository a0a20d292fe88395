"""A table as lines of short texts, the same for every format that people read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from singleshot.experiments.estimate import Estimate, seeds_text
from singleshot.experiments.published import METRICS
from singleshot.experiments.table_rows import Cell, Row
from singleshot.experiments.tables import Table

HEADINGS = ("method", "acc. %", "ECE", "MCE", "NLL", "Brier", "time", "seeds")
ADDED_BY_US = "added by us"
MISSING = "—"

Kind = Literal["measured", "paper", "separator"]


@dataclass(frozen=True)
class Line:
    """One line, as wide as `HEADINGS`; the paper's numbers stand on a line of their own below the measured ones."""

    kind: Kind
    texts: tuple[str, ...]
    best: tuple[bool, ...] = (False,) * len(HEADINGS)  # which texts are to be marked


def layout(table: Table, *, plus_minus: str | None = " ± ") -> list[Line]:
    """Every line below the headings; without ``plus_minus``, errors and deviations are left out."""
    lines: list[Line] = []
    for row in table.rows:
        if row.added and not any(line.kind == "separator" for line in lines):
            lines.append(Line("separator", (ADDED_BY_US, *[""] * (len(HEADINGS) - 1))))
        lines.append(_measured(table, row, plus_minus))
        if row.has_paper:
            lines.append(_paper(row, plus_minus))
    return lines


def number(metric: str, value: float) -> str:
    """With the digits the paper prints, accuracy in percent; what no table has room for is shortened.

    >>> number("accuracy", 0.50821), number("nll", 2.05), number("nll", 1e300)
    ('50.82', '2.050', '1e+300')
    """
    if metric == "accuracy":
        return f"{100 * value:.2f}"
    return f"{value:.3f}" if abs(value) < 1e6 else f"{value:.3g}"


def time_text(time: Estimate | None, seeds: int) -> str:
    """The training time as a multiple, with the number of seeds it is known of if its row has another.

    >>> time_text(Estimate.of([2.3, 2.5]), seeds=3)
    '2.4× (2)'
    """
    if time is None:
        return MISSING
    return f"{time.mean:.1f}×" + ("" if time.seeds == seeds else f" ({time.seeds})")


def _measured(table: Table, row: Row, plus_minus: str | None) -> Line:
    texts = [row.title, *(_measured_text(metric, row.cells[metric], plus_minus) for metric in METRICS)]
    texts += [time_text(row.time, row.seeds), seeds_text(row.seeds, table.seeds)]
    best = (row.method in table.best[metric] for metric in METRICS)
    return Line("measured", tuple(texts), (False, *best, False, False))


def _measured_text(metric: str, cell: Cell, plus_minus: str | None) -> str:
    if cell.measured is None:
        return MISSING
    spread = cell.deviation if cell.over_beta else cell.measured.standard_error
    return _with_spread(metric, cell.measured.mean, spread, plus_minus)


def _paper(row: Row, plus_minus: str | None) -> Line:
    cells = [
        "" if cell.paper is None else _with_spread(metric, cell.paper, cell.paper_deviation, plus_minus)
        for metric, cell in row.cells.items()
    ]
    return Line("paper", ("paper", *cells, "", ""))


def _with_spread(metric: str, value: float, spread: float | None, plus_minus: str | None) -> str:
    text = number(metric, value)
    return text if spread is None or plus_minus is None else f"{text}{plus_minus}{number(metric, spread)}"
