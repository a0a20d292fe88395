"""Writing predictions a chunk at a time, so that they need not fit into memory."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from singleshot.common.files import write_atomically
from singleshot.data.cache import NpyWriter
from singleshot.predictions.labels import first_misnumbered
from singleshot.predictions.values import check_passes_shape


def write_predictions(
    path: Path | str,
    chunks: Iterable[tuple[NDArray[Any], NDArray[Any]]],
    *,
    class_names: tuple[str, ...] | None = None,
    pass_logits: NDArray[Any] | None = None,
) -> None:
    """Write logits (n, C) and labels (n,) to an .npz file that `read_predictions` and ``numpy.load`` read.

    It appears whole or not at all; the dtype of the logits is that of the first chunk.

    Args:
        path: the .npz file.
        chunks: pairs of logits and labels, one after the other.
        class_names: a name for each class.
        pass_logits: T stochastic passes (T, N, C) over all the examples, from `singleshot.sample`, for
            ``singleshot report`` to show where they disagree; it may be a memory-mapped array.
    """
    path = Path(path)
    if path.suffix.lower() != ".npz":
        raise ValueError(f"{path} must end in .npz; predictions are written in that format")

    def write(temporary: Path) -> None:
        # Zipped from two files beside it: the length of an array stands at its start, and is known at the end.
        logits_path, labels_path = temporary.with_name("logits.npy"), temporary.with_name("labels.npy")
        shape = _write_arrays(logits_path, labels_path, chunks, path)
        if pass_logits is not None:
            is_float = pass_logits.dtype.kind == "f"
            check_passes_shape(f"{path}: pass_logits", str(pass_logits.dtype), is_float, pass_logits.shape, shape)
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
            archive.write(logits_path, "logits.npy")
            archive.write(labels_path, "labels.npy")
            if pass_logits is not None:
                with archive.open("pass_logits.npy", "w", force_zip64=True) as member:
                    # by rows, or a reader could not take it a piece at a time
                    np.lib.format.write_array(member, np.ascontiguousarray(pass_logits), allow_pickle=False)
            if class_names is not None:
                with archive.open("class_names.npy", "w") as member:
                    np.lib.format.write_array(member, np.array(class_names, dtype=str), allow_pickle=False)
                if first_misnumbered(class_names) is not None:  # or a reader could take the labels for names
                    with archive.open("labels_are.npy", "w") as member:
                        np.lib.format.write_array(member, np.array(["indices"]), allow_pickle=False)

    write_atomically(path, write)


def _write_arrays(
    logits_path: Path, labels_path: Path, chunks: Iterable[tuple[NDArray[Any], NDArray[Any]]], path: Path
) -> tuple[int, ...]:
    """Write the chunks; the shape of all their logits."""
    with ExitStack() as stack:
        writers: tuple[NpyWriter, NpyWriter] | None = None
        for logits, labels in chunks:
            if len(logits) != len(labels):
                raise ValueError(f"{path}: a chunk has {len(logits)} rows of logits and {len(labels)} labels")
            if writers is None:
                writers = (
                    stack.enter_context(NpyWriter(logits_path, logits.dtype, logits.shape[1:])),
                    stack.enter_context(NpyWriter(labels_path, np.dtype(np.int64), ())),
                )
            writers[0].append(logits)
            writers[1].append(labels.astype(np.int64, copy=False))
        if writers is None:
            raise ValueError(f"{path}: there is nothing to write; predictions need at least one row")
        return writers[0].count, *writers[0].item_shape
