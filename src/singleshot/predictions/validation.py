"""Checks of scores, and the conversion of labels to class indices."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from singleshot.common.checks import as_tensor, finite_rows, first_true, probability_rows
from singleshot.common.text import listed
from singleshot.predictions.selection import Kind

LabelsAre = Literal["names", "indices"]
LABEL_MEANINGS: tuple[LabelsAre, ...] = ("names", "indices")

Location = Callable[[int], str]
"""Describes where a row of a block is in the file."""
INTEGER = re.compile("[+-]?[0-9]{1,18}")


def check_values(scores: NDArray[Any], kind: Kind, name: str, location: Location, *, bfloat16: bool = False) -> None:
    """Raise for the first row of scores (n, C) that is not finite logits or not probabilities.

    The message has the name of the file or array. Sums of ``bfloat16`` scores are checked to its precision.
    """
    values = as_tensor(scores, kind)
    if bfloat16:
        values = values.bfloat16()
    valid = finite_rows(values) if kind == "logits" else probability_rows(values)
    if bool(valid.all()):
        return
    index = first_true(~valid)
    row = values[index].double()
    if not bool(row.isfinite().all()):
        column = first_true(~row.isfinite())
        found = f"has {float(row[column])} for class {column}"
    else:
        found = f"has values from {float(row.amin()):g} to {float(row.amax()):g} and sum {float(row.sum()):.6g}"
    if kind == "logits":
        raise ValueError(f"{name}: logits must be finite; {location(index)} {found}")
    raise ValueError(
        f"{name}: probabilities must lie in [0, 1] and sum to 1 in each row; {location(index)} {found}; if these are "
        "logits, rename them or set --kind logits"
    )


def native(scores: NDArray[Any]) -> NDArray[Any]:
    """Convert to a dtype that torch supports: native byte order and at most double precision."""
    if scores.dtype.itemsize > 8:
        return scores.astype(np.float64)
    return scores.astype(scores.dtype.newbyteorder("="), copy=False)


def as_logits(scores: NDArray[Any], kind: Kind) -> NDArray[Any]:
    """Return logits unchanged, and probabilities as their logarithms, with at least the smallest normal float32."""
    if kind == "logits":
        return scores
    wide = scores.astype(np.float32) if scores.dtype == np.float16 else scores
    logits: NDArray[Any] = np.log(np.maximum(wide, np.finfo(np.float32).tiny))
    return logits


class LabelReader:
    """Converts the labels of a file to class indices 0 … C−1.

    In every format, an integer is a class index, even if it is stored as text, and other text is a class name. If
    classes are named by numbers that are not their indices, such as prob_1 … prob_10, an integer is ambiguous, and the
    caller or the file must specify its meaning.
    """

    def __init__(
        self, path: Path, classes: int, class_names: Sequence[str] | None, meaning: LabelsAre | None = None
    ) -> None:
        self._path = path
        self._classes = classes
        self._index = {name: index for index, name in enumerate(class_names or ())}
        self._meaning = meaning
        self._misnumbered = None if meaning else first_misnumbered(class_names or ())

    def __call__(self, labels: NDArray[Any], location: Location) -> NDArray[np.int64]:
        """Return the class indices (n,) of the labels of one block."""
        if labels.dtype.kind in "iu" and self._meaning != "names":
            self._check_unambiguous([str(labels[0])], location)
            invalid = (labels < 0) | (labels >= self._classes)
            if invalid.any():
                row = int(invalid.argmax())
                raise ValueError(
                    f"{self._path}: labels must lie in [0, {self._classes}), the classes of the scores; the label in "
                    f"{location(row)} is {labels[row]}"
                )
            return labels.astype(np.int64)
        if labels.dtype.kind == "S":
            labels = np.char.decode(labels, "utf-8")
        texts = [str(label).strip() for label in labels.tolist()]
        self._check_unambiguous(texts, location)
        index_of = {text: self._find_index(text) for text in set(texts)}
        indices = [index_of[text] for text in texts]
        unknown = [row for row, index in enumerate(indices) if index is None]
        if unknown:
            raise ValueError(self._unknown(texts, unknown, location))
        return np.array(indices, dtype=np.int64)

    def _check_unambiguous(self, labels: list[str], location: Location) -> None:
        if self._misnumbered is None:
            return
        row = next((row for row, label in enumerate(labels) if parse_integer(label) is not None), None)
        if row is not None:
            index, name = self._misnumbered
            raise ValueError(
                f"{self._path}: the label {labels[row]} in {location(row)} is ambiguous: it could be a class name or "
                f"an index counted from 0, because class {index} is named {name!r}. Set --labels-are names or "
                "--labels-are indices (labels_are= in Python)"
            )

    def _unknown(self, texts: list[str], rows: list[int], location: Location) -> str:
        first, where = texts[rows[0]], location(rows[0])
        if self._meaning == "indices":
            return f"{self._path}: labels must be indices in [0, {self._classes}); the label in {where} is {first!r}"
        if not self._index:
            return (
                f"{self._path}: labels are names ({first!r} in {where}), but the classes have no names; add an array "
                "class_names, or use integer labels"
            )
        names = listed(list(dict.fromkeys(repr(texts[row]) for row in rows)), 5)
        classes = listed(list(self._index))
        return f"{self._path}: unknown labels {names}, first in {where}; the classes are {classes}"

    def _find_index(self, text: str) -> int | None:
        if self._meaning != "indices" and text in self._index:
            return self._index[text]
        number = None if self._meaning == "names" else parse_integer(text)
        return number if number is not None and 0 <= number < self._classes else None


def parse_integer(text: str) -> int | None:
    """Return the integer that a text represents, if any.

    >>> parse_integer("07"), parse_integer("-1"), parse_integer("seven")
    (7, -1, None)
    """
    return int(text) if INTEGER.fullmatch(text) else None


def first_misnumbered(names: Sequence[str]) -> tuple[int, str] | None:
    """Return the first class whose name is an integer other than its index.

    >>> first_misnumbered(["0", "1", "cat"]), first_misnumbered(["1", "2"])
    (None, (0, '1'))
    """
    numbers = ((index, name, parse_integer(name)) for index, name in enumerate(names))
    return next(((index, name) for index, name, number in numbers if number not in {None, index}), None)
