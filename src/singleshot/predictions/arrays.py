"""Predictions stored as arrays: scores (N, C), labels (N,) and optional stochastic passes (T, N, C)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from singleshot.predictions.file import Block, BlockReader, Predictions, StoredPasses
from singleshot.predictions.selection import Kind, Selection, find_array, find_labels, find_passes

BLOCK_BYTES = 2**26  # of the rows in memory at a time, with their labels
MAX_LABEL_LENGTH = 4096  # bytes, or characters of a text file
MIN_PASSES = 2
MAX_PASS_SCORES = 2**23  # of one example in all passes, which are held in memory


@dataclass(frozen=True)
class StoredArray:
    """An array in a file: its header, and a function that reads it in blocks of examples.

    The examples are on the first axis, or on the second of three.
    """

    name: str  # for messages
    dtype: np.dtype[Any]  # of the blocks that are read
    shape: tuple[int, ...]
    read: Callable[[int], Iterator[NDArray[Any]]]
    bfloat16: bool = False  # in the file; numpy has no such type


def open_arrays(
    path: Path, names: Sequence[str], header: Callable[[str], StoredArray], selection: Selection
) -> Predictions:
    """Open predictions in a file of named arrays; ``header`` reads the header of one of them."""
    scores, kind = find_array(path, names, selection)
    labels = find_labels(path, names, selection)
    passes = find_passes(path, names, (scores, labels))
    found = None if passes is None else (header(passes[0]), passes[1])
    return from_arrays(path, kind, header(scores), header(labels), found)


def from_arrays(
    path: Path, kind: Kind, scores: StoredArray, labels: StoredArray, passes: tuple[StoredArray, Kind] | None = None
) -> Predictions:
    """Check the headers of scores, labels and passes, and combine them to predictions."""
    if len(scores.shape) != 2:
        raise ValueError(
            f"{scores.name} must have shape (N, C), a score for each class, got {scores.shape}; two classes need two "
            "columns"
        )
    if scores.dtype.kind != "f":
        raise ValueError(f"{scores.name} must be floating point, got {scores.dtype}")
    if len(labels.shape) != 1:
        raise ValueError(f"{labels.name} must have shape (N,), one label per example, got {labels.shape}")
    if labels.dtype.kind not in "iuUS":
        raise ValueError(f"{labels.name} must be integers or class names, got {labels.dtype}")
    if (length := labels.dtype.itemsize) > MAX_LABEL_LENGTH:
        raise ValueError(f"{labels.name} has labels of {length:,} bytes; at most {MAX_LABEL_LENGTH:,} are supported")
    count, classes = scores.shape
    if count != labels.shape[0]:
        raise ValueError(f"{scores.name} has {count:,} rows, but {labels.name} has {labels.shape[0]:,}")
    stored = None
    if passes is not None:
        array, pass_kind = passes
        check_passes_shape(array.name, array.dtype, array.shape, scores.shape)
        stored = StoredPasses(array.name, pass_kind, array.shape[0], _with_labels(array, labels))
    return Predictions(path, kind, classes, count, None, _with_labels(scores, labels), stored)


def check_passes_shape(name: str, dtype: np.dtype[Any], shape: tuple[int, ...], scores_shape: tuple[int, ...]) -> None:
    """Check that stochastic passes are floating point of shape (T, N, C), with N and C of the scores."""
    if len(shape) != 3 or shape[0] < MIN_PASSES or shape[1:] != scores_shape:
        expected = ", ".join(map(str, scores_shape))
        raise ValueError(
            f"{name} must have shape (T, {expected}): at least {MIN_PASSES} passes over the examples and classes of "
            f"the scores, got {shape}"
        )
    if dtype.kind != "f":
        raise ValueError(f"{name} must be floating point, got {dtype}")
    passes, _, classes = shape
    if passes * classes > MAX_PASS_SCORES:
        size = f"{passes:,} passes of {classes:,} classes"
        raise ValueError(f"{name} has {size}; at most {MAX_PASS_SCORES:,} scores per example are supported")


def _with_labels(scores: StoredArray, labels: StoredArray) -> BlockReader:
    total = sum(array.dtype.itemsize * math.prod(array.shape) for array in (scores, labels))

    def read_blocks(rows: int) -> Iterator[Block]:
        rows = min(rows, max(1, BLOCK_BYTES * labels.shape[0] // total))
        for some_scores, some_labels in zip(scores.read(rows), labels.read(rows), strict=True):
            yield Block(some_scores, some_labels, bfloat16=scores.bfloat16)

    return read_blocks
