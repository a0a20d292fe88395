"""Predictions in .safetensors files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from numpy.typing import NDArray

from singleshot.common.text import printable
from singleshot.predictions.arrays import StoredArray, open_arrays
from singleshot.predictions.file import Predictions
from singleshot.predictions.selection import Selection

DTYPES = {
    **{"F16": ("f", 2), "BF16": ("f", 2), "F32": ("f", 4), "F64": ("f", 8)},
    **{"I8": ("i", 1), "I16": ("i", 2), "I32": ("i", 4), "I64": ("i", 8), "U8": ("u", 1)},
}
"""Kind, as numpy has it, and size of the supported types."""


def open_safetensors(path: Path, selection: Selection) -> Predictions:
    """Open tensors ``logits`` or ``probs`` (N, C) and ``labels`` (N,).

    Optional are ``pass_logits`` or ``pass_probs`` (T, N, C), and class names as a JSON list in the metadata.
    """
    with _opened(path) as file:
        found = open_arrays(
            path, list(file.keys()), lambda name: _stored_array(path, file, name), selection, what="tensor"
        )
        return replace(found, class_names=_class_names(path, file.metadata() or {}))


def _stored_array(path: Path, file: Any, name: str) -> StoredArray:
    header = file.get_slice(name)
    shape, dtype = tuple(header.get_shape()), header.get_dtype()
    is_bfloat16 = dtype == "BF16"

    def read(rows: int) -> Iterator[NDArray[Any]]:
        with _opened(path) as reopened:
            values = reopened.get_slice(name)
            for first in range(0, shape[1 if len(shape) == 3 else 0], rows):
                block = values[:, first : first + rows] if len(shape) == 3 else values[first : first + rows]
                yield (block.float() if is_bfloat16 else block).numpy()

    kind, itemsize = DTYPES.get(dtype, ("V", 1))
    return StoredArray(f"{path}: tensor {name!r}", dtype, kind, itemsize, shape, read, is_bfloat16)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or not a safetensors file: {printable(str(error))}") from None


def _class_names(path: Path, metadata: dict[str, str]) -> tuple[str, ...] | None:
    text = metadata.get("class_names")
    if text is None:
        return None
    try:
        return tuple(str(name) for name in msgspec.json.decode(text, type=list[str | int | float]))
    except (msgspec.DecodeError, RecursionError):
        raise ValueError(
            f"{path}: class_names in its metadata must be a JSON list of names, got {text[:50]!r}"
        ) from None
