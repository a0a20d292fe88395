"""Writing an .npy file piece by piece, when its length is known only at the end."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np


class NpyWriter:
    """An .npy file that grows by whole items of one shape.

    Written, not mapped: on a full disk a write is an error that can be told, a mapped page a signal that kills.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], item_shape: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.item_shape = item_shape
        self.count = 0
        self.file = path.open("wb")

    def __enter__(self) -> NpyWriter:
        self._write_header()
        self.start = self.file.tell()
        return self

    def append(self, items: np.ndarray[Any, Any]) -> None:
        """Add items (N, *item_shape)."""
        if items.dtype != self.dtype or items.shape[1:] != self.item_shape:
            raise ValueError(f"items are {items.dtype} {items.shape[1:]}, expected {self.dtype} {self.item_shape}")
        self.file.write(np.ascontiguousarray(items).data)
        self.count += len(items)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.file:
            if kind is None:
                self.file.seek(0)
                self._write_header()  # numpy leaves room in it for any length, so that it ends where it did
                if self.file.tell() != self.start:
                    raise RuntimeError("the header of an .npy file changed its length")
                self.file.flush()
                os.fsync(self.file.fileno())

    def _write_header(self) -> None:
        np.lib.format.write_array_header_1_0(
            self.file,
            {"descr": self.dtype.str, "fortran_order": False, "shape": (self.count, *self.item_shape)},
        )
