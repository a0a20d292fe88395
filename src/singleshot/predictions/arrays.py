"""Predictions stored as arrays: scores (N, C), labels (N,) and optional stochastic passes (T, N, C)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from singleshot.common.text import listed
from singleshot.predictions.file import Block, BlockReader, Predictions, StoredPasses
from singleshot.predictions.names import ARRAY_KINDS, Kind, known
from singleshot.predictions.selection import Selection, all_found, find_array, find_labels, find_passes, find_top_class

BLOCK_BYTES = 2**26  # of the rows in memory at a time, with their labels
MAX_LABEL_LENGTH = 4096  # bytes, or characters of a text file
MIN_PASSES = 2
UNUSED = ("class_names", "labels_are")
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
    by_name = {name: header(name) for name in names if name not in UNUSED}
    # The probabilities of every class tell more than the predicted class and its confidence.
    of_classes = [name for name in known(names, ARRAY_KINDS) if len(by_name[name].shape) == 2]
    top = None if of_classes and selection.kind != "confidence" else find_top_class(path, names, selection)
    if top is not None:
        predicted = None if top.predicted is None else by_name[top.predicted]
        found = from_arrays(path, "confidence", by_name[top.confidence], by_name[top.labels], predicted=predicted)
        return replace(found, is_unclear=top.is_unclear)
    try:
        labels, (scores, kind) = all_found(
            lambda: find_labels(path, names, selection), lambda: find_array(path, names, selection)
        )
    except ValueError as error:
        stored = [f"{name} {array.dtype} {array.shape}" for name, array in by_name.items()]
        raise ValueError(f"{error}. The file contains {listed(stored)}") from None
    passes = find_passes(path, names, (scores, labels))
    read_passes = None if passes is None else (by_name[passes[0]], passes[1])
    return from_arrays(path, kind, by_name[scores], by_name[labels], passes=read_passes)


def from_arrays(
    path: Path,
    kind: Kind,
    scores: StoredArray,
    labels: StoredArray,
    *,
    passes: tuple[StoredArray, Kind] | None = None,
    predicted: StoredArray | None = None,
) -> Predictions:
    """Check the headers of scores, labels and passes, and combine them to predictions.

    Scores of shape (N,) have one class: `open_single_score` finds the others.
    """
    wanted = "(N,), one confidence per example" if kind == "confidence" else "(N, C), a score for each class, or (N,)"
    problems = []
    if len(scores.shape) not in {1, 2} or (kind == "confidence" and scores.shape[1:] not in {(), (1,)}):
        problems.append(f"{scores.name} must have shape {wanted}, got {scores.shape}")
    if scores.dtype.kind != "f":
        problems.append(f"{scores.name} must be floating point, got {scores.dtype}")
    for array in (labels, predicted):
        if array is not None:
            problems += _label_problems(array, scores)
    if problems:
        raise ValueError(". Also: ".join(problems))
    count, classes = scores.shape[0], 1 if len(scores.shape) == 1 else scores.shape[1]
    stored = None
    if passes is not None:
        array, pass_kind = passes
        check_passes_shape(array.name, array.dtype, array.shape, scores.shape)
        stored = StoredPasses(array.name, pass_kind, array.shape[0], _with_labels(array, labels))
    return Predictions(path, kind, classes, count, None, _with_labels(scores, labels, predicted), stored)


def _label_problems(labels: StoredArray, scores: StoredArray) -> Iterator[str]:
    if labels.shape[1:] not in {(), (1,)} or not labels.shape:
        hint = "; for one-hot labels, store labels.argmax(1)" if labels.shape == scores.shape else ""
        yield f"{labels.name} must have shape (N,), one label per example, got {labels.shape}{hint}"
    elif scores.shape and scores.shape[0] != labels.shape[0]:
        yield f"{scores.name} has {scores.shape[0]:,} rows, but {labels.name} has {labels.shape[0]:,}"
    if labels.dtype.kind not in "iuUSfb":
        yield f"{labels.name} must be integers or class names, got {labels.dtype}"
    if (length := labels.dtype.itemsize) > MAX_LABEL_LENGTH:
        yield f"{labels.name} has labels of {length:,} bytes; at most {MAX_LABEL_LENGTH:,} are supported"


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


def _with_labels(scores: StoredArray, labels: StoredArray, predicted: StoredArray | None = None) -> BlockReader:
    arrays = [scores, labels] if predicted is None else [scores, labels, predicted]
    total = sum(array.dtype.itemsize * math.prod(array.shape) for array in arrays)

    def read_blocks(rows: int) -> Iterator[Block]:
        rows = min(rows, max(1, BLOCK_BYTES * labels.shape[0] // total))
        for some_scores, *classes in zip(*(array.read(rows) for array in arrays), strict=True):
            some_labels, *some_predicted = [one.reshape(len(one)) for one in classes]
            columns = some_scores.reshape(-1, 1) if some_scores.ndim == 1 else some_scores
            yield Block(columns, some_labels, None, scores.bfloat16, some_predicted[0] if some_predicted else None)

    return read_blocks
