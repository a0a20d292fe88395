"""Predictions in .jsonl files: one JSON object per line, with the names of columns as keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from singleshot.predictions.arrays import MAX_LABEL_LENGTH
from singleshot.predictions.file import Block, Predictions
from singleshot.predictions.names import ARRAY_KINDS, known, plain
from singleshot.predictions.selection import Layout, Selection, find_array, find_columns, find_labels
from singleshot.predictions.text_files import BLOCK_CHARACTERS, limited_lines, opened_text

Row = dict[str, Any]


def open_jsonl(path: Path, selection: Selection) -> Predictions:
    """Open objects with keys logit_CLASS or prob_CLASS, or with a list or an object of scores, and label."""
    first = next(_read_rows(path), None)
    if first is None:
        raise ValueError(f"{path} contains no examples")
    _, _, example = first
    names = list(example)
    scores = _find_list(path, example, selection)
    if scores is not None:
        kind = find_array(path, [scores], selection)[1]
        label = find_labels(path, [name for name in names if name != scores], selection)
        keys = list(example[scores]) if isinstance(example[scores], dict) else range(len(example[scores]))
        class_names = tuple(map(str, keys)) if isinstance(example[scores], dict) else None
        layout = Layout(kind, tuple(range(len(keys))), class_names, names.index(label))
    else:
        layout = find_columns(path, names, selection)
        keys = [names[column] for column in layout.columns]
    used = [names[place] for place in (layout.labels, layout.predicted) if place is not None]

    kept = {*used, *(keys if scores is None else [scores])}

    def block(lines: list[int], rows: list[Row]) -> Block:
        values = [
            _numbers(path, line, row if scores is None else _value(path, line, row, scores), keys)
            for line, row in zip(lines, rows, strict=True)
        ]
        labels, *predicted = (
            np.array([_label(path, line, row, name) for line, row in zip(lines, rows, strict=True)], dtype=object)
            for name in used
        )
        return Block(np.array(values), labels, lines, predicted=predicted[0] if predicted else None)

    def read_blocks(max_rows: int) -> Iterator[Block]:
        lines: list[int] = []
        rows: list[Row] = []
        characters = 0
        for line, length, row in _read_rows(path):
            lines.append(line)
            rows.append({name: value for name, value in row.items() if name in kept})
            characters += length
            if len(rows) == max_rows or characters >= BLOCK_CHARACTERS:
                yield block(lines, rows)
                lines, rows, characters = [], [], 0
        if rows:
            yield block(lines, rows)

    count = len(layout.columns)
    return Predictions(
        path,
        layout.kind,
        count,
        None,
        layout.class_names,
        read_blocks,
        is_unclear=layout.is_unclear,
        are_assumed=layout.are_assumed,
    )


def _read_rows(path: Path) -> Iterator[tuple[int, int, Row]]:
    """Yield the line number, the length in characters and the values of each row."""
    with opened_text(path) as file:
        for line, text in enumerate(limited_lines(path, file), 1):
            if not text.strip():
                continue
            try:
                row = _decoded(text)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}, line {line}: not a JSON object: {str(error)[:100]}") from None
            yield line, len(text), row


def _decoded(text: str) -> Row:
    """Return the values of a line, which can contain NaN and Infinity as Python's json module writes them."""
    try:
        return msgspec.json.decode(text, type=Row)
    except msgspec.DecodeError as error:
        row = json.loads(text) if "NaN" in text or "Infinity" in text else None
        if not isinstance(row, dict):
            raise ValueError(str(error)) from None
        return row


def _find_list(path: Path, row: Row, selection: Selection) -> str | None:
    """Return the key whose value is a list or an object of scores."""
    lists = [name for name, value in row.items() if isinstance(value, list | dict) and value]
    if selection.scores is not None:
        return selection.scores if selection.scores in lists else None
    found = [name for name in known(lists, ARRAY_KINDS) if selection.kind in (None, ARRAY_KINDS[plain(name)])]
    if lists and not found:
        return find_array(path, lists, selection)[0]
    return find_array(path, found, selection)[0] if found else None


def _value(path: Path, line: int, row: Row, name: str) -> Any:
    if name not in row:
        raise ValueError(f"{path}, line {line}: no {name!r}, which the first line has")
    return row[name]


def _numbers(path: Path, line: int, scores: Any, keys: Any) -> list[float]:
    try:
        if isinstance(scores, list) and len(scores) != len(keys):
            raise ValueError(f"{len(scores)} scores, but the first line has {len(keys)}")  # noqa: TRY301
        values = [scores[key] for key in keys]
        if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
            raise ValueError("a score is not a number")  # noqa: TRY301
        return [float(value) for value in values]
    except KeyError as error:
        raise ValueError(f"{path}, line {line}: no {error}, which the first line has") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path}, line {line}: {error}") from None


def _label(path: Path, line: int, row: Row, name: str) -> str:
    value = _value(path, line, row, name)
    if isinstance(value, list | dict) or value is None or len(str(value)) > MAX_LABEL_LENGTH:
        raise ValueError(f"{path}, line {line}: {name!r} must be an integer or a class name, got {str(value)[:50]}")
    return str(value)
