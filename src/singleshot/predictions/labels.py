"""From labels as they stand in a file, numbers or names, to class indices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from singleshot.predictions.names import is_number
from singleshot.predictions.source import Source, listed

Where = Callable[[int], str]
"""Names the place of a row of the block."""


class LabelReader:
    """Maps the labels of a file to class indices 0 … C−1.

    An integer in an array is an index. Text is the name of a class. Where the names head columns, such as prob_1 …
    prob_10, a number is a name as well if any class is named by a number, and an index if none is.
    """

    def __init__(self, source: Source, path: Path) -> None:
        self._path = path
        self._classes = source.classes
        names = source.class_names or ()
        self._named = {name: index for index, name in enumerate(names)}
        self._has_headings = source.has_headings
        has_numbers = any(is_number(name) for name in names)
        in_order = all(name == str(index) for index, name in enumerate(names))
        # Integers are indices without a look at the names, unless headings say otherwise.
        self._numbers_are_names = source.has_headings and has_numbers and not in_order
        self._text_may_be_index = source.has_headings and not has_numbers

    def __call__(self, raw: NDArray[Any], where: Where) -> NDArray[np.int64]:
        """Indices (n,) of the labels of one block."""
        if raw.dtype.kind in "iu" and not self._numbers_are_names:
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
        try:
            return np.array([self._named[text] for text in texts], dtype=np.int64)
        except KeyError:
            return self._one_by_one(texts, where)

    def _one_by_one(self, texts: list[str], where: Where) -> NDArray[np.int64]:
        """The slow way, which knows what is wrong."""
        indices = [self._index(text) for text in texts]
        unknown = [row for row, index in enumerate(indices) if index is None]
        if not unknown:
            return np.array(indices, dtype=np.int64)
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
        found = self._named.get(text)
        if found is None and self._text_may_be_index and is_number(text) and int(text) < self._classes:
            return int(text)
        return found
