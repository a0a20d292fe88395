"""Predictions in .csv files, gzipped or not, read in blocks of rows.

The csv module splits and ``float`` reads the numbers, both in C: a few million cells a second, the quotes right, and
the line of a mistake known.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from singleshot.predictions.columns import COLUMN_LABELS, check_headings, find_columns, find_labels
from singleshot.predictions.npy_stream import LONGEST_TEXT
from singleshot.predictions.source import Asked, RawBlock, Source, damage_named

LONGEST_LINE = 2**26  # characters: four million classes of 16 digits
BLOCK_CHARACTERS = 2**24  # of the rows held at a time, however much else stands in them


def open_csv(path: Path, asked: Asked) -> Source:
    """A line of headings, then one line per example: columns logit_CLASS or prob_CLASS, and label."""
    with _rows(path) as rows:
        headings = _headings(path, rows)
    label = find_labels(path, headings, COLUMN_LABELS, asked, what="column")
    columns = find_columns(path, headings, label, asked)
    label_place = headings.index(label)

    def read(most: int) -> Iterator[RawBlock]:
        with damage_named(path), _rows(path) as rows:
            next(rows)
            while True:
                lines, cells = _block(path, rows, most, len(headings), label_place)
                if not cells:
                    return
                scores = _numbers(path, lines, cells, columns.places, headings)
                labels = np.array([row[label_place] for row in cells], dtype=object)
                yield RawBlock(scores, labels, lines)

    return Source(columns.kind, len(columns.places), None, columns.class_names, read)


class _Reader:
    """The rows of an open file, with the number of the line that the latest ended at."""

    def __init__(self, file: IO[str], path: Path) -> None:
        self._path = path
        self._rows = csv.reader(self._lines(file), strict=True)
        self.characters = 0  # read so far
        self._row_start = 0

    def __iter__(self) -> _Reader:
        return self

    def __next__(self) -> list[str]:
        self._row_start = self.characters
        return next(self._rows)

    def _lines(self, file: IO[str]) -> Iterator[str]:
        """Lines of bearable length, and rows: a few bytes of gzip can stand for a line that fills the memory."""
        while line := file.readline(LONGEST_LINE):
            self.characters += len(line)
            if self.characters - self._row_start >= LONGEST_LINE:
                raise ValueError(f"{self._path} has a line of {LONGEST_LINE:,} characters or more")
            yield line

    @property
    def line(self) -> int:
        return self._rows.line_num


@contextmanager
def _rows(path: Path) -> Iterator[_Reader]:
    compressed = path.name.lower().endswith(".gz")
    opened: Any = gzip.open if compressed else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        yield _Reader(file, path)


def _headings(path: Path, rows: _Reader) -> list[str]:
    headings = [name.strip() for name in next(rows, [])]
    if not any(headings):
        raise ValueError(f"{path} does not begin with a line of headings, such as label,prob_cat,prob_dog")
    other = next((sign for sign in (";", "\t", "|") if len(headings) == 1 and sign in headings[0]), None)
    if other is not None:
        raise ValueError(f"{path} seems to be separated by {other!r}; its cells must be separated by commas")
    check_headings(path, headings)
    return headings


def _block(path: Path, rows: _Reader, most: int, width: int, label: int) -> tuple[list[int], list[list[str]]]:
    """So many rows with their line numbers, fewer where they are long; blank lines are passed over."""
    lines: list[int] = []
    cells: list[list[str]] = []
    last = rows.characters + BLOCK_CHARACTERS
    for row in rows:
        if row:
            if len(row) != width:
                raise ValueError(f"{path}, line {rows.line}: {len(row)} cells under {width} headings")
            if len(row[label]) > LONGEST_TEXT:
                raise ValueError(
                    f"{path}, line {rows.line}: a label of {len(row[label]):,} characters; {LONGEST_TEXT:,} at most"
                )
            cells.append(row)
            lines.append(rows.line)
            if len(cells) == most or rows.characters >= last:
                break
    return lines, cells


def _numbers(
    path: Path, lines: list[int], cells: list[list[str]], places: tuple[int, ...], headings: Sequence[str]
) -> NDArray[np.float64]:
    first, last = places[0], places[-1] + 1
    in_a_row = places == tuple(range(first, last))
    take: Any = itemgetter(slice(first, last)) if in_a_row else itemgetter(*places)
    texts = chain.from_iterable(map(take, cells))
    try:
        values = np.fromiter(map(float, texts), dtype=np.float64, count=len(cells) * len(places))
    except ValueError:
        raise ValueError(_first_non_number(path, lines, cells, places, headings)) from None
    return values.reshape(len(cells), len(places))


def _first_non_number(
    path: Path, lines: list[int], cells: list[list[str]], places: tuple[int, ...], headings: Sequence[str]
) -> str:
    for line, row in zip(lines, cells, strict=True):
        for place in places:
            if not _is_a_number(row[place]):
                found = f"{row[place][:50]!r}, which is not a number" if row[place].strip() else "empty"
                return f"{path}, line {line}, column {headings[place]!r}: the cell is {found}"
    raise AssertionError("one of the cells is not a number")


def _is_a_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
