"""Write predictions in chunks, so that they need not fit into memory."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from singleshot.common.files import write_atomically
from singleshot.common.npy import NpyWriter
from singleshot.predictions.arrays import check_passes_shape
from singleshot.predictions.validation import first_misnumbered

Chunks = Iterable[tuple[NDArray[Any], NDArray[Any]]]


def write_predictions(
    path: Path | str,
    chunks: Chunks,
    *,
    class_names: tuple[str, ...] | None = None,
    pass_logits: NDArray[Any] | None = None,
) -> None:
    """Write logits (n, C) and labels (n,) to an .npz file that `read_predictions` and ``numpy.load`` read.

    The file is replaced atomically. The logits have the dtype of the first chunk.

    Args:
        path: the .npz file.
        chunks: pairs of logits and labels.
        class_names: a name for each class.
        pass_logits: T stochastic passes (T, N, C) over all examples, from `singleshot.sample`, for
            ``singleshot report`` to show where they disagree; may be memory-mapped.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_predictions(f"{folder}/a.npz", [(np.zeros((2, 3)), np.array([0, 2]))])
    ...     sorted(np.load(f"{folder}/a.npz"))
    ['labels', 'logits']
    """
    path = Path(path)
    if path.suffix.lower() != ".npz":
        raise ValueError(f"{path} must end in .npz")

    def write(temporary: Path) -> None:
        # An array's length precedes its values but is only known at the end, so the arrays are written to files first.
        files = [temporary.with_name("logits.npy"), temporary.with_name("labels.npy")]
        shape = _write_arrays(files[0], files[1], chunks, path)
        small: dict[str, NDArray[Any]] = {}
        if pass_logits is not None:
            check_passes_shape(f"{path}: pass_logits", pass_logits.dtype, pass_logits.shape, shape)
            small["pass_logits"] = np.ascontiguousarray(pass_logits)  # row-major, so that it can be read in blocks
        if class_names is not None:
            small["class_names"] = np.array(class_names, dtype=str)
            if first_misnumbered(class_names) is not None:  # integer labels would be ambiguous
                small["labels_are"] = np.array(["indices"])
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
            for file in files:
                archive.write(file, file.name)
            for name, array in small.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)

    write_atomically(path, write)


def write_top_class(
    path: Path | str,
    confidence: NDArray[Any],
    predicted: NDArray[Any],
    labels: NDArray[Any],
    *,
    class_names: tuple[str, ...] | None = None,
) -> None:
    """Write predicted classes and labels (N,) as indices, and the confidences (N,), to an .npz file, atomically."""
    path = Path(path)
    if path.suffix.lower() != ".npz":
        raise ValueError(f"{path} must end in .npz")
    arrays: dict[str, Any] = {"confidence": confidence, "predicted": predicted, "labels": labels}
    if class_names is not None:
        arrays |= {"class_names": np.array(class_names, dtype=str), "labels_are": np.array(["indices"])}

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez(file, **arrays)

    write_atomically(path, write)


def _write_arrays(logits_path: Path, labels_path: Path, chunks: Chunks, path: Path) -> tuple[int, ...]:
    """Write the chunks, and return the shape of all logits."""
    remaining = iter(chunks)
    first = next(remaining, None)
    if first is None:
        raise ValueError(f"{path}: no predictions to write")
    with (
        NpyWriter(logits_path, first[0].dtype, first[0].shape[1:]) as all_logits,
        NpyWriter(labels_path, np.dtype(np.int64), ()) as all_labels,
    ):
        for logits, labels in chain([first], remaining):
            if len(logits) != len(labels):
                raise ValueError(f"{path}: a chunk has {len(logits)} rows of logits and {len(labels)} labels")
            all_logits.append(logits)
            all_labels.append(labels.astype(np.int64, copy=False))
    return all_logits.count, *all_logits.item_shape
