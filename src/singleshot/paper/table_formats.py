"""A table as lines of short texts, the same for every format that people read."""

from __future__ import annotations

import csv
import io
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from singleshot.paper.measurements import Estimate, seeds_text
from singleshot.paper.published import METRICS
from singleshot.paper.table_rows import Cell, Row
from singleshot.paper.tables import Table

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


TIME = "time_ratio"
CSV_COLUMNS = ("table", "dataset", "model", "method", "metric", *Cell().to_dict(), "scale")

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


def as_text(table: Table, width: int = 120) -> str:
    """Aligned columns for a terminal of this width; an asterisk marks the best of a column.

    What is too wide is set tighter, and then without errors and deviations: a note says so.
    """
    for plus_minus in (" ± ", "±", None):
        lines = _aligned(layout(table, plus_minus=plus_minus))
        if max(map(len, lines)) <= width:
            break
    left_out = "Errors and deviations are left out to fit the width; the other formats have them."
    notes = [*table.notes, *([left_out] if plus_minus is None else [])]
    around = [textwrap.fill(text, width, subsequent_indent="  ") for text in (table.caption, *notes)]
    return "\n".join([around[0], "", *lines, "", *around[1:]]) + "\n"


def _aligned(lines: list[Line]) -> list[str]:
    """The headings, a rule, and the lines, each column as wide as its widest text."""
    shown = [Line("measured", HEADINGS), *lines]
    # One place at the end of each column is kept for the asterisk, so that digits stay below digits.
    texts = [
        [text + ("*" if best else " ") for text, best in zip(line.texts, line.best, strict=True)] for line in shown
    ]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    whole = sum(widths) + len(widths) - 1
    aligned = [_aligned_line(line, cells, widths) for line, cells in zip(shown, texts, strict=True)]
    return [aligned[0], "─" * whole, *aligned[1:]]


def _aligned_line(line: Line, cells: list[str], widths: list[int]) -> str:
    if line.kind == "separator":
        return f"── {line.texts[0]} ".ljust(sum(widths) + len(widths) - 1, "─")
    title = f"  {cells[0]}" if line.kind == "paper" else cells[0]
    numbers = (text.rjust(wide) for text, wide in zip(cells[1:], widths[1:], strict=True))
    return " ".join([title.ljust(widths[0]), *numbers]).rstrip()


def as_markdown(table: Table) -> str:
    """A Markdown table below its caption; the best of a column is bold."""
    rows = [HEADINGS, ("---", *["---:"] * (len(HEADINGS) - 1)), *map(_markdown_cells, layout(table))]
    lines = ["| " + " | ".join(cells) + " |" for cells in rows]
    notes = [f"- {_markdown_escaped(note)}" for note in table.notes]
    return "\n".join([f"**{_markdown_escaped(table.caption)}**", "", *lines, "", *notes]) + "\n"


def _markdown_cells(line: Line) -> tuple[str, ...]:
    escaped = map(_markdown_escaped, line.texts)
    if line.kind != "measured":
        return tuple(f"*{text}*" if text else "" for text in escaped)
    return tuple(f"**{text}**" if best else text for text, best in zip(escaped, line.best, strict=True))


def _markdown_escaped(text: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)


def as_latex(table: Table) -> str:
    r"""A floating table for ``\input``; the best of a column is bold."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", f"{table.exhibit}-{table.dataset}-{table.model}")
    columns = f"l{'r' * (len(HEADINGS) - 1)}"
    body = [_latex_row([f"\\textbf{{{latex_escaped(heading)}}}" for heading in HEADINGS])]
    body += [r"\midrule", *(_latex_line(line) for line in layout(table))]
    return (
        "\n".join(
            [
                r"% \usepackage{booktabs,graphicx}",
                r"\begin{table}",
                r"\centering",
                f"\\caption{{{latex_escaped(table.caption)}}}",
                f"\\label{{tab:{name}}}",
                r"\resizebox{\linewidth}{!}{%",
                f"\\begin{{tabular}}{{{columns}}}",
                r"\toprule",
                *body,
                r"\bottomrule",
                r"\end{tabular}}",
                r"\par\smallskip\footnotesize\raggedright",
                *(f"{latex_escaped(note)}\\par" for note in table.notes),
                r"\end{table}",
            ]
        )
        + "\n"
    )


def latex_escaped(text: str) -> str:
    r"""Text that LaTeX prints as it stands.

    >>> print(latex_escaped("tiny_imagenet, β = 0.1, 90 %"))
    tiny\_imagenet, $\beta$ = 0.1, 90 \%
    """
    return "".join(_LATEX.get(sign, sign) for sign in text)


def _latex_line(line: Line) -> str:
    texts = [latex_escaped(text) for text in line.texts]
    if line.kind == "separator":
        return f"\\midrule\n\\multicolumn{{{len(texts)}}}{{l}}{{\\emph{{{texts[0]}}}}} \\\\"
    if line.kind == "paper":
        return _latex_row([f"\\quad\\emph{{{texts[0]}}}", *texts[1:]])
    return _latex_row([f"\\textbf{{{text}}}" if best else text for text, best in zip(texts, line.best, strict=True)])


def _latex_row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def as_csv(*tables: Table) -> str:
    """One line for each row and metric, the time ratio among them, below one header; what is missing is empty."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for table in tables:
        writer.writerows(_csv_lines(table))
    return written.getvalue()


def _csv_lines(table: Table) -> Iterator[tuple[str | float | None, ...]]:
    for row in table.rows:
        for metric, cell in {**row.cells, TIME: Cell(row.time)}.items():
            place = (table.exhibit, table.dataset, table.model, row.method, metric)
            yield (*place, *cell.to_dict().values(), table.scale)


FORMATS: dict[str, Callable[[Table], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "latex": as_latex,
    "csv": as_csv,
}


def formatted(table: Table, form: str, *, width: int = 120) -> str:
    """The table in one of `FORMATS`; the width, a terminal's, matters to text alone."""
    return as_text(table, width) if form == "text" else FORMATS[form](table)
