"""Predictions in .safetensors files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from singleshot.common.text import printable
from singleshot.predictions.columns import ARRAY_LABELS, find_array, find_labels
from singleshot.predictions.npy_stream import check_lengths, check_scores_shape
from singleshot.predictions.source import Asked, PassesSource, RawBlock, Source
from singleshot.predictions.values import check_passes_shape, find_passes

BFLOAT16 = "BF16"
FLOATS = ("F16", BFLOAT16, "F32", "F64")
INTEGERS = ("I8", "I16", "I32", "I64", "U8")


def open_safetensors(path: Path, asked: Asked) -> Source:
    """Tensors ``logits`` or ``probs`` (N, C) and ``labels`` (N,); class names as a JSON list in the metadata.

    Stochastic passes may stand beside them, in ``pass_logits`` or ``pass_probs`` (T, N, C).
    """
    with _opened(path) as file:
        there = list(file.keys())
        scores, kind = find_array(path, there, asked, what="tensor")
        labels = find_labels(path, there, ARRAY_LABELS, asked, what="tensor")
        shape, dtype = _outline(file, scores)
        check_scores_shape(f"{path}: tensor {scores!r}", dtype, dtype in FLOATS, shape)
        labels_shape, labels_dtype = _outline(file, labels)
        if len(labels_shape) != 1 or labels_dtype not in INTEGERS:
            raise ValueError(
                f"{path}: tensor {labels!r} must be integers of shape (N,), got {labels_dtype} of shape {labels_shape}"
            )
        check_lengths(f"{path}: tensor {scores!r}", f"tensor {labels!r}", shape[0], labels_shape[0])
        names = _class_names(path, file.metadata() or {})
        passes = _passes(path, file, (scores, labels), shape)

    def read(rows: int) -> Iterator[RawBlock]:
        with _opened(path) as again:
            some_scores, some_labels = again.get_slice(scores), again.get_slice(labels)
            for first in range(0, shape[0], rows):
                last = min(first + rows, shape[0])
                yield _block(some_scores[first:last], some_labels[first:last], dtype)

    return Source(kind, shape[1], shape[0], names, read, passes=passes)


def _passes(path: Path, file: Any, taken: tuple[str, str], shape: tuple[int, ...]) -> PassesSource | None:
    found = find_passes(path, list(file.keys()), taken)
    if found is None:
        return None
    name, kind = found
    _, labels = taken
    what = f"{path}: tensor {name!r}"
    passes_shape, dtype = _outline(file, name)
    check_passes_shape(what, dtype, dtype in FLOATS, passes_shape, shape)

    def read(rows: int) -> Iterator[RawBlock]:
        with _opened(path) as again:
            some_passes, some_labels = again.get_slice(name), again.get_slice(labels)
            for first in range(0, shape[0], rows):
                last = min(first + rows, shape[0])
                yield _block(some_passes[:, first:last], some_labels[first:last], dtype)

    return PassesSource(what, kind, passes_shape[0], read)


def _block(scores: Any, labels: Any, dtype: str) -> RawBlock:
    is_bfloat16 = dtype == BFLOAT16
    return RawBlock((scores.float() if is_bfloat16 else scores).numpy(), labels.numpy(), were_bfloat16=is_bfloat16)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or incomplete, or no safetensors file: {printable(str(error))}") from None


def _outline(file: Any, name: str) -> tuple[tuple[int, ...], str]:
    part = file.get_slice(name)
    return tuple(part.get_shape()), part.get_dtype()


def _class_names(path: Path, metadata: dict[str, str]) -> tuple[str, ...] | None:
    text = metadata.get("class_names")
    if text is None:
        return None
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list):
        raise ValueError(f"{path}: class_names in its metadata must be a JSON list, got {text[:50]!r}")
    return tuple(str(name) for name in names)
