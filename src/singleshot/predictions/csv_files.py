"""Predictions in .csv files, compressed with gzip or not, read in blocks of rows.

The csv module splits and ``float`` parses the numbers, both in C: a few million cells per second, with correct quoting
and known line numbers.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from singleshot.predictions.arrays import MAX_LABEL_LENGTH
from singleshot.predictions.file import Block, Predictions
from singleshot.predictions.selection import Selection, check_headings, find_columns, find_labels

MAX_LINE = 2**26  # characters: four million classes of 16 digits
BLOCK_CHARACTERS = 2**24  # of the rows held at a time, including unused columns


def open_csv(path: Path, selection: Selection) -> Predictions:
    """Open a table with columns logit_CLASS or prob_CLASS, and label; its first line holds the headings."""
    with _opened(path) as rows:
        headings = _read_headings(path, rows)
    label = find_labels(path, headings, ("label", "labels"), selection, what="column")
    columns = find_columns(path, headings, label, selection)
    label_index = headings.index(label)

    def read_blocks(max_rows: int) -> Iterator[Block]:
        with _opened(path) as rows:
            next(rows)
            while True:
                lines, cells = _read_rows(path, rows, max_rows, len(headings), label_index)
                if not cells:
                    return
                scores = _parse_scores(path, lines, cells, columns.indices, headings)
                yield Block(scores, np.array([row[label_index] for row in cells], dtype=object), lines)

    return Predictions(path, columns.kind, len(columns.indices), None, columns.class_names, read_blocks)


class _Rows:
    """The rows of an open file, with the line number of the last one."""

    def __init__(self, file: IO[str], path: Path) -> None:
        self._path = path
        self._reader = csv.reader(self._lines(file), strict=True)
        self.characters = 0  # read so far
        self._row_start = 0

    def __iter__(self) -> _Rows:
        return self

    def __next__(self) -> list[str]:
        self._row_start = self.characters
        return next(self._reader)

    def _lines(self, file: IO[str]) -> Iterator[str]:
        """Yield lines and limit the length of a row: a few bytes of gzip can expand to a line that fills the memory."""
        while line := file.readline(MAX_LINE):
            self.characters += len(line)
            if self.characters - self._row_start >= MAX_LINE:
                raise ValueError(f"{self._path} has a line of {MAX_LINE:,} characters or more")
            yield line

    @property
    def line(self) -> int:
        return self._reader.line_num


@contextmanager
def _opened(path: Path) -> Iterator[_Rows]:
    open_text: Any = gzip.open if path.name.lower().endswith(".gz") else open
    with open_text(path, "rt", encoding="utf-8-sig", newline="") as file:
        yield _Rows(file, path)


def _read_headings(path: Path, rows: _Rows) -> list[str]:
    headings = [name.strip() for name in next(rows, [])]
    if not any(headings):
        raise ValueError(f"{path} has no headings in its first line, such as label,prob_cat,prob_dog")
    separator = next((sign for sign in (";", "\t", "|") if len(headings) == 1 and sign in headings[0]), None)
    if separator is not None:
        raise ValueError(f"{path} seems to be separated by {separator!r}; use commas")
    check_headings(path, headings)
    return headings


def _read_rows(path: Path, rows: _Rows, max_rows: int, width: int, label: int) -> tuple[list[int], list[list[str]]]:
    """Read rows and their line numbers, fewer if they are long; blank lines are skipped."""
    lines: list[int] = []
    cells: list[list[str]] = []
    end = rows.characters + BLOCK_CHARACTERS
    for row in rows:
        if row:
            if len(row) != width:
                raise ValueError(f"{path}, line {rows.line}: {len(row)} cells, but {width} headings")
            if len(row[label]) > MAX_LABEL_LENGTH:
                raise ValueError(
                    f"{path}, line {rows.line}: the label has {len(row[label]):,} characters, more than "
                    f"{MAX_LABEL_LENGTH:,}"
                )
            cells.append(row)
            lines.append(rows.line)
            if len(cells) == max_rows or rows.characters >= end:
                break
    return lines, cells


def _parse_scores(
    path: Path, lines: list[int], cells: list[list[str]], indices: tuple[int, ...], headings: Sequence[str]
) -> NDArray[np.float64]:
    first, last = indices[0], indices[-1] + 1
    is_contiguous = indices == tuple(range(first, last))
    take: Any = itemgetter(slice(first, last)) if is_contiguous else itemgetter(*indices)
    texts = chain.from_iterable(map(take, cells))
    with suppress(ValueError):
        values = np.fromiter(map(float, texts), dtype=np.float64, count=len(cells) * len(indices))
        return values.reshape(len(cells), len(indices))
    line, row, index = next(
        (line, row, index)
        for line, row in zip(lines, cells, strict=True)
        for index in indices
        if not _is_number(row[index])
    )
    found = f"{row[index][:50]!r} is not a number" if row[index].strip() else "the cell is empty"
    raise ValueError(f"{path}, line {line}, column {headings[index]!r}: {found}")


def _is_number(text: str) -> bool:
    with suppress(ValueError):
        float(text)
        return True
    return False
