"""A table as text for the terminal, as Markdown, as LaTeX and as CSV."""

from __future__ import annotations

import csv
import io
import re
import textwrap
from collections.abc import Callable, Iterator

from singleshot.experiments.table_layout import HEADINGS, Line, layout
from singleshot.experiments.table_rows import Cell
from singleshot.experiments.tables import Table

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
