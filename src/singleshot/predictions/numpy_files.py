"""Predictions in .npz archives and in pairs of .npy files, read as streams of rows."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from singleshot.predictions.arrays import MAX_LABEL_LENGTH, StoredArray, from_arrays, open_arrays
from singleshot.predictions.file import Predictions
from singleshot.predictions.npy_stream import (
    ArrayHeader,
    check_passes_size,
    pass_streams,
    read_blocks,
    read_header,
    read_pass_blocks,
)
from singleshot.predictions.selection import ARRAY_KINDS, SET_KIND, Kind, Selection
from singleshot.predictions.validation import LABEL_MEANINGS

MAX_NAME_BYTES = 2**28
NPY = ".npy"
STREAMABLE = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""The methods that numpy writes. zipfile decompresses others in pieces of any size, and ten times slower."""


def open_npz(path: Path, selection: Selection) -> Predictions:
    """Open an archive with arrays ``logits`` or ``probs`` (N, C) and ``labels`` (N,).

    Optional arrays are ``class_names`` (C,), and ``pass_logits`` or ``pass_probs`` (T, N, C).
    """
    with zipfile.ZipFile(path) as archive:
        files = archive.namelist()
        if len(set(files)) < len(files):
            raise ValueError(f"{path} contains two arrays with the same name")
        names = [name.removesuffix(NPY) for name in files if name.endswith(NPY)]
        found = open_arrays(path, names, lambda name: _member_array(path, archive, name), selection)
        class_names = _texts(path, archive, "class_names") if "class_names" in names else None
        meaning = _texts(path, archive, "labels_are") if "labels_are" in names else ()
    labels_are = next((known for known in LABEL_MEANINGS if meaning == (known,)), None)
    return replace(found, class_names=class_names, labels_are=labels_are)


def open_npy(path: Path, selection: Selection) -> Predictions:
    """Open scores (N, C) in one .npy file with labels (N,) in another; the file name or the caller gives the kind."""
    if selection.scores is not None:
        raise ValueError(f"{path} holds a single unnamed array; remove --scores {selection.scores}")
    kind = selection.kind or _kind_from_name(path)
    if selection.labels is None:
        raise ValueError(f"{path} holds scores only; give the file of labels: --labels labels.npy (labels=)")
    labels = Path(selection.labels)
    if labels.suffix.lower() != NPY or not labels.is_file():
        raise ValueError(f"--labels {labels} must be an existing .npy file with a label for each row of {path}")
    return from_arrays(path, kind, _file_array(path), _file_array(labels))


def _member_array(path: Path, archive: zipfile.ZipFile, name: str) -> StoredArray:
    with _opened_member(path, archive, name) as (_, header):
        if len(header.shape) == 3:
            check_passes_size(header)

    def read(rows: int) -> Iterator[NDArray[Any]]:
        with zipfile.ZipFile(path) as reopened, ExitStack() as stack:
            file, header = stack.enter_context(_opened_member(path, reopened, name))
            if len(header.shape) != 3:
                yield from read_blocks(file, header, rows)
                return
            others = range(pass_streams(header) - 1)
            files = [file, *(stack.enter_context(_opened_member(path, reopened, name))[0] for _ in others)]
            yield from read_pass_blocks(files, header, rows)

    return StoredArray(header.name, header.dtype, header.shape, read)


def _file_array(path: Path) -> StoredArray:
    with _opened_file(path) as (_, header):
        pass

    def read(rows: int) -> Iterator[NDArray[Any]]:
        with _opened_file(path) as (file, header):
            yield from read_blocks(file, header, rows)

    return StoredArray(header.name, header.dtype, header.shape, read)


@contextmanager
def _opened_member(path: Path, archive: zipfile.ZipFile, name: str) -> Iterator[tuple[IO[bytes], ArrayHeader]]:
    info = archive.getinfo(name + NPY)
    if info.compress_type not in STREAMABLE:
        raise ValueError(
            f"{path}: array {name!r} is compressed with an unsupported method; numpy.savez_compressed uses deflate"
        )
    with archive.open(info) as file:
        yield file, read_header(file, info.file_size, f"{path}: array {name!r}")


@contextmanager
def _opened_file(path: Path) -> Iterator[tuple[IO[bytes], ArrayHeader]]:
    with path.open("rb") as file:
        yield file, read_header(file, path.stat().st_size, str(path))


def _texts(path: Path, archive: zipfile.ZipFile, name: str) -> tuple[str, ...]:
    """Read an array of texts. Its header is checked before anything is decompressed."""
    with _opened_member(path, archive, name) as (file, header):
        if len(header.shape) != 1 or header.dtype.kind not in "USiu":
            raise ValueError(f"{header.name} must be a list of names, got {header.dtype} of shape {header.shape}")
        if header.dtype.itemsize > MAX_LABEL_LENGTH or header.size > MAX_NAME_BYTES:
            raise ValueError(
                f"{header.name} is too large: {header.size:,} bytes; at most {MAX_NAME_BYTES:,} bytes and "
                f"{MAX_LABEL_LENGTH:,} bytes per name are supported"
            )
        texts: NDArray[Any] = np.concatenate([np.empty(0, header.dtype), *read_blocks(file, header, 2**16)])
        if header.dtype.kind == "S":
            texts = np.char.decode(texts, "utf-8")
        return tuple(str(text) for text in texts.tolist())


def _kind_from_name(path: Path) -> Kind:
    kinds = {kind for word, kind in ARRAY_KINDS.items() if word in path.stem.lower()}
    if len(kinds) != 1:
        raise ValueError(f"{path}: unclear from its name whether it holds logits or probabilities; {SET_KIND}")
    return kinds.pop()
