"""Predictions in .safetensors files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from singleshot.predictions.arrays import StoredArray, open_arrays
from singleshot.predictions.file import Predictions
from singleshot.predictions.selection import Selection

DTYPES = {
    **{"F16": "f2", "BF16": "f4", "F32": "f4", "F64": "f8", "BOOL": "?"},
    **{"I8": "i1", "I16": "i2", "I32": "i4", "I64": "i8", "U8": "u1"},
}
"""The numpy types of the blocks that are read. bfloat16 is converted to float32."""


def open_safetensors(path: Path, selection: Selection) -> Predictions:
    """Open tensors ``logits`` or ``probs`` (N, C) and ``labels`` (N,).

    Optional are ``pass_logits`` or ``pass_probs`` (T, N, C), and class names as a JSON list in the metadata.
    """
    with safe_open(path, framework="pt") as file:
        found = open_arrays(path, list(file.keys()), lambda name: _stored_array(path, file, name), selection)
        return replace(found, class_names=_class_names(path, file.metadata() or {}))


def _stored_array(path: Path, file: Any, name: str) -> StoredArray:
    header = file.get_slice(name)
    shape, dtype = tuple(header.get_shape()), header.get_dtype()
    if dtype not in DTYPES:
        raise ValueError(f"{path}: tensor {name!r} has the unsupported type {dtype}")
    is_bfloat16 = dtype == "BF16"

    def read(rows: int) -> Iterator[NDArray[Any]]:
        with safe_open(path, framework="pt") as reopened:
            values = reopened.get_slice(name)
            for first in range(0, shape[1 if len(shape) == 3 else 0], rows):
                block = values[:, first : first + rows] if len(shape) == 3 else values[first : first + rows]
                yield (block.float() if is_bfloat16 else block).numpy()

    return StoredArray(f"{path}: tensor {name!r}", np.dtype(DTYPES[dtype]), shape, read, is_bfloat16)


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
