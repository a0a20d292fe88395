"""Predictions in .csv files, compressed with gzip or not, read in blocks of rows.

The csv module and ``float`` parse a few million cells per second, with correct quoting and known line numbers.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from singleshot.predictions.arrays import MAX_LABEL_LENGTH
from singleshot.predictions.file import Block, Predictions
from singleshot.predictions.selection import LABEL_COLUMNS, Selection, check_unique, find_columns, find_labels

MAX_LINE = 2**26  # characters: four million classes of 16 digits
MAX_BLANK_LINES = 2**20  # in a row; a few bytes of gzip can expand to any number
BLOCK_CHARACTERS = 2**24  # of the rows held at a time, including unused columns


def open_csv(path: Path, selection: Selection) -> Predictions:
    """Open a table with columns logit_CLASS or prob_CLASS, and label. The first line contains the headings."""
    headings = _read_headings(path)
    label = find_labels(path, headings, selection, LABEL_COLUMNS)
    kind, indices, class_names = find_columns(path, headings, label, selection)
    label_index = headings.index(label)

    def block(lines: list[int], rows: list[list[str]]) -> Block:
        scores = _parse_scores(path, lines, rows, indices, headings)
        return Block(scores, np.array([row[label_index] for row in rows], dtype=object), lines)

    def read_blocks(max_rows: int) -> Iterator[Block]:
        lines: list[int] = []
        rows: list[list[str]] = []
        characters = blank = 0
        for line, length, row in islice(_read_rows(path), 1, None):
            characters += length
            blank = 0 if row else blank + 1
            if blank > MAX_BLANK_LINES:
                raise ValueError(f"{path}, line {line}: more than {MAX_BLANK_LINES:,} blank lines in a row")
            if not row:
                continue
            if len(row) != len(headings):
                raise ValueError(f"{path}, line {line}: {len(row)} cells, but {len(headings)} headings")
            if len(row[label_index]) > MAX_LABEL_LENGTH:
                size = f"{len(row[label_index]):,} characters, more than {MAX_LABEL_LENGTH:,}"
                raise ValueError(f"{path}, line {line}: the label has {size}")
            lines.append(line)
            rows.append(row)
            if len(rows) == max_rows or characters >= BLOCK_CHARACTERS:
                yield block(lines, rows)
                lines, rows, characters = [], [], 0
        if rows:
            yield block(lines, rows)

    return Predictions(path, kind, len(indices), None, class_names, read_blocks)


def _read_rows(path: Path) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the line number, the length in characters and the cells of each row.

    The length is limited: a few bytes of gzip can expand to a line that fills the memory.
    """
    length = 0

    def lines() -> Iterator[str]:
        nonlocal length
        while line := file.readline(MAX_LINE):
            length += len(line)
            if length >= MAX_LINE:
                raise ValueError(f"{path} has a line of {MAX_LINE:,} characters or more")
            yield line

    open_text: Any = gzip.open if path.name.lower().endswith(".gz") else open
    with open_text(path, "rt", encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(lines(), strict=True)
        for cells in reader:
            yield reader.line_num, length, cells
            length = 0


def _read_headings(path: Path) -> list[str]:
    _, _, cells = next(_read_rows(path), (0, 0, []))
    headings = [name.strip() for name in cells]
    if not any(headings):
        raise ValueError(f"{path} has no headings in its first line, such as label,prob_cat,prob_dog")
    separator = next((sign for sign in (";", "\t", "|") if len(headings) == 1 and sign in headings[0]), None)
    if separator is not None:
        raise ValueError(f"{path} seems to be separated by {separator!r}; use commas")
    check_unique(path, headings)
    return headings


def _parse_scores(
    path: Path, lines: list[int], rows: list[list[str]], indices: tuple[int, ...], headings: Sequence[str]
) -> NDArray[np.float64]:
    first, last = indices[0], indices[-1] + 1
    is_contiguous = indices == tuple(range(first, last))
    take: Any = itemgetter(slice(first, last)) if is_contiguous else itemgetter(*indices)
    texts = chain.from_iterable(map(take, rows))
    with suppress(ValueError):
        values = np.fromiter(map(float, texts), dtype=np.float64, count=len(rows) * len(indices))
        return values.reshape(len(rows), len(indices))
    line, heading, cell = next(
        (line, headings[index], row[index])
        for line, row in zip(lines, rows, strict=True)
        for index in indices
        if not _is_number(row[index])
    )
    found = f"{cell[:50]!r} is not a number" if cell.strip() else "the cell is empty"
    raise ValueError(f"{path}, line {line}, column {heading!r}: {found}")


def _is_number(text: str) -> bool:
    with suppress(ValueError):
        float(text)
        return True
    return False
