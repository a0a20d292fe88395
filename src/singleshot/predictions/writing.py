"""Write predictions in chunks, so that they need not fit into memory."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Iterable, Iterator, Sequence
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
    """Write logits (n, C) and labels (n,) to an .npz or .csv file that `read_predictions` reads.

    The file is replaced atomically. The logits have the dtype of the first chunk.

    Args:
        path: the .npz file, or a .csv file with columns ``label`` and ``logit_CLASS``.
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
    if _is_csv(path, class_names):
        if pass_logits is not None:
            raise ValueError(f"{path}: a table has no stochastic passes; write .npz")
        remaining = iter(chunks)
        first = _first(path, remaining)
        names = class_names or range(first[0].shape[1])
        _write_csv(
            path,
            ["label", *(f"logit_{name}" for name in names)],
            (
                [names[label], *row]
                for logits, labels in chain([first], remaining)
                for row, label in zip(logits.tolist(), labels.tolist(), strict=True)
            ),
        )
        return

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
    """Write predicted classes and labels (N,), as indices, and confidences (N,) to an .npz or .csv file, atomically."""
    path = Path(path)
    if _is_csv(path, class_names):
        names = class_names or range(int(max(labels.max(), predicted.max())) + 1)
        columns = ([names[index] for index in labels], [names[index] for index in predicted], confidence.tolist())
        _write_csv(path, ["label", "predicted", "confidence"], zip(*columns, strict=True))
        return
    arrays: dict[str, Any] = {"confidence": confidence, "predicted": predicted, "labels": labels}
    if class_names is not None:
        arrays |= {"class_names": np.array(class_names, dtype=str), "labels_are": np.array(["indices"])}

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez(file, **arrays)

    write_atomically(path, write)


def _is_csv(path: Path, class_names: Sequence[str] | None) -> bool:
    ending = path.suffix.lower()
    if ending not in {".npz", ".csv"}:
        raise ValueError(f"{path} must end in .npz or .csv")
    if ending == ".csv" and first_misnumbered(class_names or ()) is not None:
        raise ValueError(f"{path}: labels that are numbers other than the class indices would be ambiguous; write .npz")
    return ending == ".csv"


def _write_csv(path: Path, headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(chain([headings], rows))

    write_atomically(path, write)


def _first(path: Path, chunks: Iterator[Any]) -> Any:
    first = next(chunks, None)
    if first is None:
        raise ValueError(f"{path}: no predictions to write")
    return first


def _write_arrays(logits_path: Path, labels_path: Path, chunks: Chunks, path: Path) -> tuple[int, ...]:
    """Write the chunks, and return the shape of all logits."""
    remaining = iter(chunks)
    first = _first(path, remaining)
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
