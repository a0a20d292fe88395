"""Predictions in .csv, .tsv and .txt files, read in blocks of rows.

The csv module and ``float`` parse a few million cells per second, with correct quoting and known line numbers.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from singleshot.common.text import listed
from singleshot.predictions.arrays import MAX_LABEL_LENGTH
from singleshot.predictions.file import Block, Predictions
from singleshot.predictions.selection import Layout, Selection, check_unique, find_columns
from singleshot.predictions.text_files import BLOCK_CHARACTERS, MAX_LINE, limited_lines, opened_text

SEPARATORS = ("\t", ";", "|", ",", " ")
"""In this order: a decimal comma is not a separator, nor is the space after a comma."""
LABEL = "label"  # heading of the labels in a table without headings


def open_csv(path: Path, selection: Selection) -> Predictions:
    """Open a table of scores and labels; the separator is found in its first lines.

    The first line contains the headings. Without headings, the labels are the first or the last column, and the classes
    are numbered from 0.
    """
    separator = _find_separator(path)
    headings, has_headings = _read_headings(path, separator, selection)
    layout = find_columns(path, headings, selection)
    used = [one for one in (layout.labels, layout.predicted) if one is not None]

    def block(lines: list[int], rows: list[list[str]]) -> Block:
        scores = _parse_scores(path, lines, rows, layout, headings)
        labels, *predicted = (np.array([row[column] for row in rows], dtype=object) for column in used)
        return Block(scores, labels, lines, predicted=predicted[0] if predicted else None)

    def read_blocks(max_rows: int) -> Iterator[Block]:
        lines: list[int] = []
        rows: list[list[str]] = []
        characters = 0
        for line, length, row in islice(_read_rows(path, separator), int(has_headings), None):
            characters += length
            if not row:
                continue
            if len(row) != len(headings):
                is_split = separator == "," and len(row) > len(headings)
                hint = "; if the numbers have decimal commas, export the table with semicolons" if is_split else ""
                raise ValueError(f"{path}, line {line}: {len(row)} cells, but {len(headings)} headings{hint}")
            longest = max(len(row[column]) for column in used)
            if longest > MAX_LABEL_LENGTH:
                size = f"{longest:,} characters, more than {MAX_LABEL_LENGTH:,}"
                raise ValueError(f"{path}, line {line}: the label has {size}")
            lines.append(line)
            rows.append(row)
            if len(rows) == max_rows or characters >= BLOCK_CHARACTERS:
                yield block(lines, rows)
                lines, rows, characters = [], [], 0
        if rows:
            yield block(lines, rows)

    classes = len(layout.columns)
    return Predictions(
        path,
        layout.kind,
        classes,
        None,
        layout.class_names,
        read_blocks,
        is_unclear=layout.is_unclear,
        are_assumed=layout.are_assumed,
    )


def _find_separator(path: Path) -> str:
    """Return the first separator that splits the first two lines into equally many cells."""
    with opened_text(path) as file:
        first = list(islice((line for line in limited_lines(path, file) if line.strip()), 2))
    if not first:
        return ","
    for separator in SEPARATORS:
        signs = [_unquoted(line).count(separator) for line in first]
        if min(signs) > 0 and len(set(signs)) == 1:
            return separator
    return max(SEPARATORS[-2::-1], key=_unquoted(first[0]).count)  # not a space, which headings may contain


def _unquoted(line: str) -> str:
    return re.sub('"[^"]*"', "", line) if '"' in line else line


def _read_rows(path: Path, separator: str) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the line number, the length in characters and the cells of each row.

    The length is limited, also that of a quoted cell with many lines.
    """
    length = 0

    def lines() -> Iterator[str]:
        nonlocal length
        for line in limited_lines(path, file):
            length += len(line)
            if length >= MAX_LINE:
                raise ValueError(f"{path} has a line of {MAX_LINE:,} characters or more")
            yield line

    with opened_text(path) as file:
        reader = csv.reader(lines(), delimiter=separator, strict=True)
        for cells in reader:
            yield reader.line_num, length, cells
            length = 0


def _read_headings(path: Path, separator: str, selection: Selection) -> tuple[list[str], bool]:
    """Return the headings, and whether they are in the file."""
    _, _, cells = next(_read_rows(path, separator), (0, 0, []))
    headings = [name.strip() for name in cells]
    if not any(headings):
        raise ValueError(f"{path} has no headings in its first line, such as label,prob_cat,prob_dog")
    numbers = [_number(cell) for cell in headings]
    texts = sum(number is None for number in numbers)
    has_fraction = any(number is not None and not number.is_integer() for number in numbers)
    has_decimals = any(sign in cell for cell in headings for sign in ".,")  # scores of exactly 0 and 1
    if (has_fraction and texts <= 1) or (has_decimals and texts == 0):
        return _numbered_headings(path, separator, len(headings), selection), False
    check_unique(path, headings)
    return headings, True


def _numbered_headings(path: Path, separator: str, columns: int, selection: Selection) -> list[str]:
    """Return a heading per column of a table without headings: numbers, and ``label`` for the first or last column."""
    rows = [row for _, _, row in islice(_read_rows(path, separator), 20) if row]
    last = columns - 1
    headings = [str(index) for index in range(columns)]
    if selection.labels is None:
        full = [row for row in rows if len(row) == columns]
        whole = [index for index in {0, last} if all(_is_label(row[index]) for row in full)]
        if len(whole) == 2:  # numpy.savetxt writes scores of 0 and 1 with exponents, and labels too unless told not to
            whole = [index for index in whole if not any("e" in row[index].lower() for row in full)]
        if len(whole) != 1:
            raise ValueError(
                f"{path} has no headings, and it is unclear which column holds the labels: add a line such as "
                "label,prob_cat,prob_dog, or set --labels NUMBER, counted from 0"
            )
        headings = headings[:-1]  # those of the classes, which are numbered like their labels
        headings.insert(whole[0], LABEL)
    if selection.kind is None:
        raise ValueError(
            f"{path} has no headings, so it is unclear whether it holds logits or probabilities: set --kind logits or "
            "--kind probs (kind= in Python)"
        )
    return headings


def _parse_scores(
    path: Path, lines: list[int], rows: list[list[str]], layout: Layout, headings: Sequence[str]
) -> NDArray[np.float64]:
    indices = layout.columns
    first, last = indices[0], indices[-1] + 1
    is_contiguous = indices == tuple(range(first, last))
    take: Any = itemgetter(slice(first, last)) if is_contiguous else itemgetter(*indices)
    for convert in (float, _spreadsheet_number):
        texts = chain.from_iterable(map(take, rows))
        with suppress(ValueError):
            values = np.fromiter(map(convert, texts), dtype=np.float64, count=len(rows) * len(indices))
            return values.reshape(len(rows), len(indices))
    faults = [
        (line, headings[index], row[index])
        for line, row in zip(lines, rows, strict=True)
        for index in indices
        if _number(row[index]) is None
    ]
    line, heading, cell = faults[0]
    found = f"{cell[:50]!r} is not a number" if cell.strip() else "the cell is empty"
    others = list(dict.fromkeys(heading for _, heading, _ in faults))
    also = f"; columns without numbers: {listed(others)}" if len(others) > 1 else ""
    raise ValueError(f"{path}, line {line}, column {heading!r}: {found}{also}")


def _spreadsheet_number(text: str) -> float:
    text = text.strip().replace(",", ".", 1)
    return float(f"{text[:-1].rstrip()}e-2" if text.endswith("%") else text)  # correctly rounded, unlike a division


def _number(text: str) -> float | None:
    with suppress(ValueError):
        return _spreadsheet_number(text)
    return None


def _is_label(text: str) -> bool:
    """Whether a cell is an integer or not a number."""
    number = _number(text)
    return number is None or number.is_integer()
