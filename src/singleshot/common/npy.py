"""Incremental writing of .npy files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np


class NpyWriter:
    """Write an .npy file incrementally, as items of one shape.

    The file is not memory-mapped: on a full disk a write raises an error, but a mapped page kills the process.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], item_shape: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.item_shape = item_shape
        self.count = 0
        self._file = path.open("wb")

    def __enter__(self) -> NpyWriter:
        self._write_header()
        return self

    def append(self, items: np.ndarray[Any, Any]) -> None:
        """Add items (N, *item_shape)."""
        if items.dtype != self.dtype or items.shape[1:] != self.item_shape:
            raise ValueError(f"items are {items.dtype} {items.shape[1:]}, expected {self.dtype} {self.item_shape}")
        self._file.write(np.ascontiguousarray(items).data)
        self.count += len(items)

    def __exit__(self, kind: object, *_: object) -> None:
        with self._file:
            if kind is None:
                self._file.seek(0)
                self._write_header()  # numpy pads the header so that its length does not depend on the count
                self._file.flush()
                os.fsync(self._file.fileno())

    def _write_header(self) -> None:
        shape = (self.count, *self.item_shape)
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)
