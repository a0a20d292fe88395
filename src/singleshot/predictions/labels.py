"""From labels as they stand in a file, numbers or names, to class indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from singleshot.predictions.source import LabelsAre, Source, listed, number_in

Where = Callable[[int], str]
"""Names the place of a row of the block."""


class LabelReader:
    """Maps the labels of a file to class indices 0 … C−1.

    In every format text is the name of a class and a whole number, as an integer or as text, is an index. Where
    classes are named by numbers that are not their indices, such as prob_1 … prob_10, it could be either: then the
    caller, or the file, has to say which.
    """

    def __init__(self, source: Source, path: Path, labels_are: LabelsAre | None = None) -> None:
        self._path = path
        self._classes = source.classes
        names = source.class_names or ()
        self._named = {name: index for index, name in enumerate(names)}
        self._are = source.labels_are or labels_are
        self._misnumbered = None if self._are else first_misnumbered(names)

    def __call__(self, raw: NDArray[Any], where: Where) -> NDArray[np.int64]:
        """Indices (n,) of the labels of one block."""
        if raw.dtype.kind in "iu" and self._are != "names":
            self._check_meaning(str(raw[0]), 0, where)
            return self._checked_indices(raw, where)
        if raw.dtype.kind not in "iuUSTO":
            raise ValueError(f"{self._path}: labels must be integers or class names, got {raw.dtype}")
        return self._by_name(raw, where)

    def _checked_indices(self, raw: NDArray[Any], where: Where) -> NDArray[np.int64]:
        wrong = (raw < 0) | (raw >= self._classes)
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(
                f"{self._path}: labels must lie in [0, {self._classes}), the classes of the scores; the label in "
                f"{where(row)} is {raw[row]}"
            )
        return raw.astype(np.int64)

    def _by_name(self, raw: NDArray[Any], where: Where) -> NDArray[np.int64]:
        if raw.dtype.kind == "S":
            raw = np.char.decode(raw, "utf-8")
        texts = [str(label).strip() for label in raw.tolist()]
        if self._misnumbered is not None:
            for row, text in enumerate(texts):
                if number_in(text) is not None:
                    self._check_meaning(text, row, where)
        if self._are == "indices":
            return self._one_by_one(texts, where)
        try:
            return np.array([self._named[text] for text in texts], dtype=np.int64)
        except KeyError:
            return self._one_by_one(texts, where)

    def _check_meaning(self, label: str, row: int, where: Where) -> None:
        if self._misnumbered is not None:
            index, name = self._misnumbered
            raise ValueError(
                f"{self._path}: the label {label} in {where(row)} could be the name of a class or its index, counted "
                f"from 0: class {index} is named {name!r}. Say which with --labels-are names or --labels-are indices "
                "(labels_are= in Python)"
            )

    def _one_by_one(self, texts: list[str], where: Where) -> NDArray[np.int64]:
        """The slow way, which knows what is wrong."""
        indices = [self._index(text) for text in texts]
        unknown = [row for row, index in enumerate(indices) if index is None]
        if not unknown:
            return np.array(indices, dtype=np.int64)
        if self._are == "indices":
            raise ValueError(
                f"{self._path}: labels are said to be indices, in [0, {self._classes}); the label in "
                f"{where(unknown[0])} is {texts[unknown[0]]!r}"
            )
        if not self._named:
            raise ValueError(
                f"{self._path}: labels are names ({texts[unknown[0]]!r} in {where(unknown[0])}), but the classes have "
                "none; add an array class_names, or give labels as integers"
            )
        strangers = list(dict.fromkeys(repr(texts[row]) for row in unknown))
        raise ValueError(
            f"{self._path}: {listed(strangers, 5)} among the labels, first in {where(unknown[0])}, is no class of the "
            f"scores, which are {listed(list(self._named))}"
        )

    def _index(self, text: str) -> int | None:
        found = None if self._are == "indices" else self._named.get(text)
        if found is not None or self._are == "names":
            return found
        number = number_in(text)
        return number if number is not None and 0 <= number < self._classes else None


def first_misnumbered(names: Sequence[str]) -> tuple[int, str] | None:
    """The first class whose name is a whole number but not its index.

    >>> first_misnumbered(["0", "1", "cat"]), first_misnumbered(["1", "2"])
    (None, (0, '1'))
    """
    numbers = ((index, name, number_in(name)) for index, name in enumerate(names))
    return next(((index, name) for index, name, number in numbers if number not in {None, index}), None)
