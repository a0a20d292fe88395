"""Tables as text, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from singleshot.paper.published import CI_MEAN, METRICS
from singleshot.paper.seed_means import Estimate, format_seeds
from singleshot.paper.tables import NO_RUNS, Table

HEADINGS = ("method", "acc. %", "ECE", "MCE", "NLL", "Brier", "time", "seeds")
CSV_COLUMNS = (
    *("table", "dataset", "model", "method", "metric"),
    *("mean", "standard_error", "std_over_beta", "seeds", "paper", "paper_std", "scale"),
)
MISSING = "—"
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "—": "---",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "γ": r"$\gamma$",
    "ε": r"$\varepsilon$",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    **{sign: f"\\{sign}" for sign in "{}$&#%_"},
}


@dataclass(frozen=True)
class _Line:
    """The texts of one line, in the order of `HEADINGS`; published numbers are on a line below the measured ones."""

    kind: Literal["measured", "paper", "separator"]
    texts: tuple[str, ...]
    best: tuple[bool, ...] = (False,) * len(HEADINGS)  # which texts are marked


def _lines(table: Table, *, plus_minus: str | None = " ± ") -> list[_Line]:
    """Return every line below the headings; with ``plus_minus=None``, without errors and deviations."""

    def with_spread(metric: str, value: float, spread: float | None) -> str:
        text = format_number(metric, value)
        return text if spread is None or plus_minus is None else f"{text}{plus_minus}{format_number(metric, spread)}"

    lines: list[_Line] = []
    best = table.best
    for row in table.rows:
        if row.added and not any(line.kind == "separator" for line in lines):
            lines.append(_Line("separator", ("added by us", *[""] * (len(HEADINGS) - 1))))
        errors = {metric: estimate.standard_error for metric, estimate in row.measured.items()}
        spreads = row.deviations if row.method == CI_MEAN else errors
        cells = (with_spread(metric, one.mean, spreads.get(metric)) for metric, one in row.measured.items())
        counts = format_time(row.time, row.seeds), format_seeds(row.seeds, table.seeds)
        marks = (row.method in best[metric] for metric in METRICS)
        texts = (row.title, *(cells if row.measured else [MISSING] * len(METRICS)), *counts)
        lines.append(_Line("measured", texts, (False, *marks, False, False)))
        if row.paper:
            std = row.paper.std or {}
            cells = (with_spread(metric, value, std.get(metric)) for metric, value in row.paper.metrics.items())
            lines.append(_Line("paper", ("paper", *cells, "", "")))
    return lines


def format_number(metric: str, value: float) -> str:
    """Return a number with the digits of the paper, accuracy in percent.

    >>> format_number("accuracy", 0.50821), format_number("nll", 2.05), format_number("nll", 1e300)
    ('50.82', '2.050', '1e+300')
    """
    if metric == "accuracy":
        return f"{100 * value:.2f}"
    return f"{value:.3f}" if abs(value) < 1e6 else f"{value:.3g}"


def format_difference(metric: str, difference: Estimate) -> str:
    """Format a difference between methods with its 95 % interval over seeds, accuracy in percentage points.

    >>> format_difference("ece", Estimate(-0.0512, 0.001, 3))
    '-0.051 [-0.056, -0.047]'
    """
    scale, digits = (100, 2) if metric == "accuracy" else (1, 3)
    shown, *ends = (f"{scale * value:+.{digits}f}" for value in (difference.mean, *(difference.interval() or ())))
    return f"{shown} [{', '.join(ends)}]" if ends else shown


def format_time(time: Estimate | None, seeds: int) -> str:
    """Return the relative training time, with its number of seeds if the row has more.

    >>> format_time(Estimate.of([2.3, 2.5]), seeds=3)
    '2.4× (2)'
    """
    if time is None:
        return MISSING
    return f"{time.mean:.1f}×" + ("" if time.seeds == seeds else f" ({time.seeds})")


def as_text(table: Table, width: int = 120) -> str:
    """Return aligned columns for a terminal; an asterisk marks the best of a column.

    A table that is too wide loses its spaces around ±, then its errors and deviations; a note states this.
    """
    for plus_minus in (" ± ", "±", None):
        lines = _aligned(_lines(table, plus_minus=plus_minus))
        if max(map(len, lines)) <= width:
            break
    notes = list(table.notes)
    if plus_minus is None:
        notes.append("Errors and deviations are omitted to fit the width; the other formats have them.")
    caption, *notes = (textwrap.fill(text, width, subsequent_indent="  ") for text in (table.caption, *notes))
    return "\n".join([caption, "", *lines, "", *notes]) + "\n"


def _aligned(lines: list[_Line]) -> list[str]:
    lines = [_Line("measured", HEADINGS), *lines]
    # One character at the end of each column is reserved for the asterisk, so that digits stay aligned.
    texts = [[text + "* "[not best] for text, best in zip(line.texts, line.best, strict=True)] for line in lines]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    total = sum(widths) + len(widths) - 1
    aligned = []
    for line, cells in zip(lines, texts, strict=True):
        if line.kind == "separator":
            aligned.append(f"── {line.texts[0]} ".ljust(total, "─"))
            continue
        title = f"  {cells[0]}" if line.kind == "paper" else cells[0]
        numbers = (text.rjust(width) for text, width in zip(cells[1:], widths[1:], strict=True))
        aligned.append(" ".join([title.ljust(widths[0]), *numbers]).rstrip())
    return [aligned[0], "─" * total, *aligned[1:]]


def as_markdown(table: Table) -> str:
    """Return a Markdown table below its caption; the best of a column is bold."""
    rows = []
    for line in _lines(table):
        texts = map(_escape_markdown, line.texts)
        if line.kind == "measured":
            rows.append([f"**{text}**" if best else text for text, best in zip(texts, line.best, strict=True)])
        else:
            rows.append([f"*{text}*" if text else "" for text in texts])
    notes = [f"- {_escape_markdown(note)}" for note in table.notes]
    return "\n".join([f"**{_escape_markdown(table.caption)}**", "", markdown_table(HEADINGS, rows), "", *notes]) + "\n"


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; all columns but the first are aligned to the right.

    >>> print(markdown_table(["loss", "ECE"], [["VWCI", "0.05"]]))
    | loss | ECE |
    | --- | ---: |
    | VWCI | 0.05 |
    """
    rule = ["---", *["---:"] * (len(headings) - 1)]
    return "\n".join(f"| {' | '.join(cells).lstrip()} |" for cells in (headings, rule, *rows))


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)


def as_latex(table: Table) -> str:
    r"""Return a floating table for ``\input``; the best of a column is bold."""
    label = re.sub(r"[^A-Za-z0-9]+", "-", f"{table.experiment}-{table.dataset}-{table.model}")
    headings = " & ".join(rf"\textbf{{{escape_latex(heading)}}}" for heading in HEADINGS)
    lines = [
        r"% \usepackage{booktabs,graphicx}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape_latex(table.caption)}}}",
        rf"\label{{tab:{label}}}",
        r"\resizebox{\linewidth}{!}{%",
        rf"\begin{{tabular}}{{l{'r' * (len(HEADINGS) - 1)}}}",
        r"\toprule",
        rf"{headings} \\",
        r"\midrule",
        *map(_latex_line, _lines(table)),
        r"\bottomrule",
        r"\end{tabular}}",
        r"\par\smallskip\footnotesize\raggedright",
        *(rf"{escape_latex(note)}\par" for note in table.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_line(line: _Line) -> str:
    texts = [escape_latex(text) for text in line.texts]
    if line.kind == "separator":
        return f"\\midrule\n\\multicolumn{{{len(texts)}}}{{l}}{{\\emph{{{texts[0]}}}}} \\\\"
    if line.kind == "paper":
        texts[0] = rf"\quad\emph{{{texts[0]}}}"
    texts = [rf"\textbf{{{text}}}" if best else text for text, best in zip(texts, line.best, strict=True)]
    return " & ".join(texts) + r" \\"


def escape_latex(text: str) -> str:
    r"""Return text that LaTeX prints literally.

    >>> print(escape_latex("tiny_imagenet, β = 0.1, 90 %"))
    tiny\_imagenet, $\beta$ = 0.1, 90 \%
    """
    return "".join(_LATEX.get(sign, sign) for sign in text)


def as_csv(table: Table) -> str:
    """Return one line per row and metric, including the relative training time; missing values are empty."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    place = {"table": table.experiment, "dataset": table.dataset, "model": table.model, "scale": table.scale}
    for row in table.rows:
        for metric, fields in {**row.numbers(), "time_ratio": vars(row.time) if row.time else NO_RUNS}.items():
            writer.writerow({**place, "method": row.method, "metric": metric, **fields})
    return buffer.getvalue()


FORMATS: dict[str, tuple[str, Callable[[Table], str]]] = {
    "text": (".txt", as_text),
    "markdown": (".md", as_markdown),
    "latex": (".tex", as_latex),
    "csv": (".csv", as_csv),
}
"""The suffix and the function of each format."""
