"""Checks of scores, and the conversion of labels to class indices."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from singleshot.common.checks import as_tensor, counted_from_one, first_true, logit_rows, probability_rows
from singleshot.common.text import listed, quoted
from singleshot.predictions.names import Kind

LabelsAre = Literal["names", "indices"]
LABEL_MEANINGS: tuple[LabelsAre, ...] = ("names", "indices")

Location = Callable[[int], str]
"""Describes where a row of a block is in the file."""
TRUTHS = {"false": 0, "true": 1}
INTEGER = re.compile(r"([+-]?[0-9]{1,18})(\.0*)?")
EXPONENT = re.compile(r"[+-]?[0-9]\.[0-9]{18}e\+[0-9]{2}")
"""A number as numpy.savetxt writes it by default."""

ZEROS = 0.0005
"""What the probabilities of 0 of an example have together, at most, for a calibration."""


def valid_rows(values: Tensor, kind: Kind) -> Tensor:
    """Return a mask of the valid rows of scores (n, C)."""
    if kind == "confidence":
        return ((values >= 0) & (values <= 1)).all(1)
    return logit_rows(values) if kind == "logits" else probability_rows(values)


def describe_row(row: Tensor, kind: Kind) -> str:
    """Describe what is wrong with an invalid row of scores."""
    row = row.double()
    if kind == "confidence":
        return f"has {float(row[0]):g}"
    is_odd = ~row.isfinite() & ~row.isneginf() if kind == "logits" and not row.isneginf().all() else ~row.isfinite()
    if bool(is_odd.any()):
        column = first_true(is_odd)
        return f"has {float(row[column])} for class {column}"
    return f"has values from {float(row.amin()):g} to {float(row.amax()):g} and sum {float(row.sum()):.6g}"


REQUIREMENTS: dict[Kind, str] = {
    "logits": "logits must be finite (or -inf)",
    "probs": "probabilities must lie in [0, 1] and sum to 1 in each row",
    "confidence": "a confidence or probability must lie in [0, 1]",
}


class ScoreFaults:
    """Counts the invalid rows of a file, and remembers the first and the worst of them."""

    def __init__(self, name: str, kind: Kind) -> None:
        self.name, self.kind = name, kind
        self.rows = self.invalid = 0
        self.first = self.worst = ""
        self.largest = -1.0
        self.are_positive = True
        self.exceed_1 = False
        self.are_percentages = True

    def add(self, values: Tensor, location: Location) -> None:
        """Add rows of scores (n, C)."""
        wrong = (~valid_rows(values, self.kind)).nonzero().squeeze(1)
        self.rows += len(values)
        self.invalid += len(wrong)
        if not len(wrong):
            return
        total = values[wrong].double().sum(1)
        off = (total - 1).abs().nan_to_num(nan=torch.inf)
        worst = int(off.argmax())
        if float(off[worst]) > self.largest:
            self.largest, row = float(off[worst]), int(wrong[worst])
            self.worst = f"{location(row)} {describe_row(values[row], self.kind)}"
        self.first = self.first or f"{location(int(wrong[0]))} {describe_row(values[wrong[0]], self.kind)}"
        self.exceed_1 |= bool((values[wrong] > 1).any())
        self.are_positive &= bool((values[wrong] >= 0).all() and (total > 0).all())
        self.are_percentages &= bool(((total - 100).abs() <= 1).all())

    def message(self) -> str:
        """Describe all faults; empty if there are none."""
        if not self.invalid:
            return ""
        found = f"{self.name}: {REQUIREMENTS[self.kind]}; {self.first}"
        if self.invalid > 1:
            found += f"; {self.invalid:,} of {self.rows:,} rows are invalid"
        if self.kind == "confidence" and self.are_positive and 1 < self.largest < 100:
            return f"{found}; if these are percentages, --normalize divides them by 100 (normalize=True in Python)"
        if self.kind == "logits":
            return found
        if self.kind == "confidence":
            return f"{found}; if these are logits of the positive class, set --kind logits"
        if self.invalid > 1 and self.worst != self.first:
            found += f"; the worst: {self.worst}"
        looks_percent = self.are_positive and self.are_percentages
        if self.are_positive:
            found += "; these look like percentages:" if looks_percent else ";"
            found += " --normalize divides each row by its sum (normalize=True in Python)"
        if looks_percent or (self.are_positive and not self.exceed_1):
            return found
        return f"{found}; if these are logits, rename them or set --scores NAME --kind logits"


def check_values(scores: NDArray[Any], kind: Kind, name: str, location: Location, *, bfloat16: bool = False) -> None:
    """Raise if a row of scores (n, C) is not valid. The message has the name of the file or array.

    Sums of ``bfloat16`` scores are checked to its precision.
    """
    values = score_tensor(scores, kind, bfloat16=bfloat16)
    if not bool(valid_rows(values, kind).all()):
        faults = ScoreFaults(name, kind)
        faults.add(values, location)
        raise ValueError(faults.message())


def score_tensor(scores: NDArray[Any], kind: Kind, *, bfloat16: bool = False) -> Tensor:
    """Return scores as a tensor, in bfloat16 if that was their precision."""
    values = as_tensor(scores, kind)
    return values.bfloat16() if bfloat16 else values


def native(scores: NDArray[Any]) -> NDArray[Any]:
    """Convert to a dtype that torch supports: native byte order and at most double precision."""
    if scores.dtype.itemsize > 8:
        return scores.astype(np.float64)
    return scores.astype(scores.dtype.newbyteorder("="), copy=False)


def as_logits(scores: NDArray[Any], kind: Kind) -> NDArray[Any]:
    """Return finite logits: probability 0, or a logit of −∞, becomes the smallest normal float32."""
    tiny = np.finfo(np.float32).tiny
    if kind == "logits":
        masked = np.isneginf(scores)
        if not masked.any():
            return scores
        lowest = scores.max(-1, keepdims=True) + np.log(tiny)
        return np.asarray(np.where(masked, lowest, scores).astype(scores.dtype))
    wide = scores.astype(np.float32) if scores.dtype == np.float16 else scores
    logits: NDArray[Any] = np.log(np.maximum(wide, tiny))
    return logits


def fitted_logits(scores: NDArray[Any], kind: Kind) -> NDArray[Any]:
    """Return finite logits for a calibration: those of probability 0 share half of the smallest other one of their row.

    Rounded to two decimals, a probability of 0 is any below 0.005, and one of 1e-38 would dominate every fit. The
    zeros of a row have at most `ZEROS` together.

    >>> np.exp(fitted_logits(np.array([[0.9996, 0.0004, 0.0], [1.0, 0.0, 0.0]]), "probs")).round(5).tolist()
    [[0.9996, 0.0004, 0.0002], [1.0, 0.00025, 0.00025]]
    """
    is_zero = scores == 0
    if kind == "probs" and is_zero.any():
        wide = scores.astype(np.promote_types(scores.dtype, np.float32))
        share = np.min(wide, axis=-1, keepdims=True, where=~is_zero, initial=2 * ZEROS) / 2
        scores = np.where(is_zero, share / np.maximum(is_zero.sum(-1, keepdims=True), 1).astype(wide.dtype), wide)
    return as_logits(scores, kind)


def label_texts(labels: NDArray[Any]) -> list[str]:
    """Return labels as text: whole numbers without decimals, and text without spaces around it.

    >>> label_texts(np.array([2.0, 0.5])), label_texts(np.array([" cat", "2.0"])), label_texts(np.array([True]))
    (['2', '0.5'], ['cat', '2'], ['True'])
    """
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8")
    texts = [str(label).strip() for label in labels.ravel().tolist()]
    if labels.dtype.kind in "biu":
        return texts
    plain = {text: _without_decimals(text) for text in set(texts)}
    return [plain[text] for text in texts]


def _without_decimals(text: str) -> str:
    if EXPONENT.fullmatch(text) and (number := float(text)).is_integer():
        return str(int(number))
    match = INTEGER.fullmatch(text)
    return match[1] if match and match[2] else text


def whole_numbers(labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels (n,) or (n, 1) as (n,), and floating point labels that are whole as integers."""
    labels = labels.ravel() if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.dtype.kind == "b":
        return labels.astype(np.int64)
    if labels.dtype.kind == "f" and np.isfinite(labels).all() and (labels == np.round(labels)).all():
        return labels.astype(np.int64)
    return labels


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
        self._is_numbered_pair = classes == 2 and tuple(class_names or ("0", "1")) == ("0", "1")
        self._meaning = meaning
        self._misnumbered = None if meaning else first_misnumbered(class_names or ())

    def __call__(self, labels: NDArray[Any], location: Location) -> NDArray[np.int64]:
        """Return the class indices (n,) of the labels of one block."""
        labels = whole_numbers(labels)
        if labels.dtype.kind in "iu" and self._meaning != "names":
            self._check_unambiguous([str(labels[0])], location)
            invalid = (labels < 0) | (labels >= self._classes)
            if invalid.any():
                row = int(invalid.argmax())
                raise ValueError(
                    f"{self._path}: labels must lie in [0, {self._classes}), the classes of the scores; the label in "
                    f"{location(row)} is {labels[row]}{counted_from_one(labels.min(), labels.max(), self._classes)}"
                )
            return labels.astype(np.int64)
        if labels.dtype.kind == "f":
            row = int(np.argmin(np.isfinite(labels) & (labels == np.round(labels))))
            raise ValueError(
                f"{self._path}: labels must be integers or class names; the label in {location(row)} is {labels[row]}"
            )
        texts = label_texts(labels)
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
        if not first:
            return f"{self._path}: the label in {where} is empty"
        numbers = [number for number in map(parse_integer, texts) if number is not None]
        hint = counted_from_one(min(numbers), max(numbers), self._classes) if len(numbers) == len(texts) else ""
        if hint or (not self._index and parse_integer(first) is not None):
            return (
                f"{self._path}: labels must lie in [0, {self._classes}), the classes of the scores; the label in "
                f"{where} is {first}{hint}"
            )
        if self._meaning == "indices":
            return f"{self._path}: labels must be indices in [0, {self._classes}); the label in {where} is {first!r}"
        if not self._index:
            return (
                f"{self._path}: labels are names ({first!r} in {where}), but the classes have no names; add an array "
                "class_names, or use integer labels"
            )
        unknown = list(dict.fromkeys(repr(texts[row]) for row in rows))
        s, first_in = ("s", ", first in") if len(unknown) > 1 else ("", " in")
        alike = next((name for name in self._index if name.lower() == first.lower()), None)
        case = "" if alike is None else f"; {quoted(first)} and {quoted(alike)} differ in upper and lower case"
        found = f"unknown label{s} {listed(unknown, 5)}{first_in} {where}"
        return f"{self._path}: {found}; the classes are {listed(list(self._index))}{case}"

    def _find_index(self, text: str) -> int | None:
        if self._meaning != "indices" and text in self._index:
            return self._index[text]
        number = None if self._meaning == "names" else parse_integer(text)
        if number is None and self._is_numbered_pair:
            number = TRUTHS.get(text.lower())
        return number if number is not None and 0 <= number < self._classes else None


def parse_integer(text: str) -> int | None:
    """Return the integer that a text represents, if any.

    >>> parse_integer("07"), parse_integer("-1"), parse_integer("2.0"), parse_integer("seven")
    (7, -1, 2, None)
    """
    match = INTEGER.fullmatch(text)
    return int(match[1]) if match else None


def first_misnumbered(names: Sequence[str]) -> tuple[int, str] | None:
    """Return the first class whose name is an integer other than its index.

    >>> first_misnumbered(["0", "1", "cat"]), first_misnumbered(["1", "2"])
    (None, (0, '1'))
    """
    numbers = ((index, name, parse_integer(name)) for index, name in enumerate(names))
    return next(((index, name) for index, name, number in numbers if number not in {None, index}), None)
