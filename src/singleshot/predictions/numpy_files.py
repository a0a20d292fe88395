"""Predictions in .npz archives and in pairs of .npy files, read as streams of rows. Nothing is ever unpickled."""

from __future__ import annotations

import math
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from singleshot.common.text import printable
from singleshot.predictions.arrays import MAX_LABEL_LENGTH, StoredArray, from_arrays, open_arrays
from singleshot.predictions.file import Predictions
from singleshot.predictions.names import LOGITS, PROBS, Kind
from singleshot.predictions.selection import SET_KIND, Selection
from singleshot.predictions.validation import LABEL_MEANINGS

MAX_COPIED = 2**33  # bytes of an array that is copied to a temporary file
READ_BYTES = 2**19  # per read, because the stream of an archive makes a copy
MAX_NAME_BYTES = 2**28
MAX_DIRECTORY_BYTES = 2**17  # about 2,000 files; the directory is read again for every array
NPY = ".npy"
STREAMABLE = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""The methods that numpy writes. zipfile decompresses others in pieces of any size, and ten times slower."""


def open_npz(path: Path, selection: Selection) -> Predictions:
    """Open an archive with arrays ``logits`` or ``probs`` (N, C) and ``labels`` (N,).

    Optional arrays are ``class_names`` (C,), and ``pass_logits`` or ``pass_probs`` (T, N, C).
    """
    files = _checked_names(path)
    names = [name.removesuffix(NPY) for name in files if name.endswith(NPY)]
    found = open_arrays(path, names, lambda name: _stored_array(partial(_opened_member, path, name)), selection)
    class_names = _texts(path, "class_names") if "class_names" in names else None
    meaning = _texts(path, "labels_are") if "labels_are" in names else ()
    labels_are = next((known for known in LABEL_MEANINGS if meaning == (known,)), None)
    return replace(found, class_names=class_names, labels_are=labels_are)


def _checked_names(path: Path) -> list[str]:
    """Return the names of the files in an archive, after comparing its directory with the files themselves."""
    with path.open("rb") as file:
        end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
    size = end[zipfile._ECD_SIZE] if end else 0  # type: ignore[attr-defined]
    if size > MAX_DIRECTORY_BYTES:
        raise ValueError(
            f"{path} holds thousands of files: their list has {size:,} bytes, at most {MAX_DIRECTORY_BYTES:,} are "
            "supported; save scores and labels to an archive of their own"
        )
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            archive.open(info).close()  # raises if the names differ, so that no array is overlooked
        files = archive.namelist()
    if len(set(files)) < len(files):
        raise ValueError(f"{path} contains two arrays with the same name")
    return files


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
    return from_arrays(
        path, kind, _stored_array(partial(_opened_file, path)), _stored_array(partial(_opened_file, labels))
    )


def _stored_array(opened: Callable[[], AbstractContextManager[tuple[IO[bytes], _Header]]]) -> StoredArray:
    with opened() as (_, header):
        pass

    def read(rows: int) -> Iterator[NDArray[Any]]:
        with opened() as (file, header):
            yield from _read_blocks(file, header, rows)

    return StoredArray(header.name, header.dtype, header.shape, read)


@contextmanager
def _opened_member(path: Path, name: str) -> Iterator[tuple[IO[bytes], _Header]]:
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(name + NPY)
        if info.compress_type not in STREAMABLE:
            raise ValueError(
                f"{path}: array {name!r} is compressed with an unsupported method; numpy.savez_compressed uses deflate"
            )
        with archive.open(info) as file:
            yield file, _read_header(file, info.file_size, f"{path}: array {name!r}")


@contextmanager
def _opened_file(path: Path) -> Iterator[tuple[IO[bytes], _Header]]:
    with path.open("rb") as file:
        yield file, _read_header(file, path.stat().st_size, str(path))


def _texts(path: Path, name: str) -> tuple[str, ...]:
    """Read an array of texts. Its header is checked before anything is decompressed."""
    with _opened_member(path, name) as (file, header):
        if len(header.shape) != 1 or header.dtype.kind not in "USiu":
            raise ValueError(f"{header.name} must be a list of names, got {header.dtype} of shape {header.shape}")
        if header.dtype.itemsize > MAX_LABEL_LENGTH or header.size > MAX_NAME_BYTES:
            raise ValueError(
                f"{header.name} is too large: {header.size:,} bytes; at most {MAX_NAME_BYTES:,} bytes and "
                f"{MAX_LABEL_LENGTH:,} bytes per name are supported"
            )
        texts: NDArray[Any] = np.concatenate([np.empty(0, header.dtype), *_read_blocks(file, header, 2**16)])
        if header.dtype.kind == "S":
            texts = np.char.decode(texts, "utf-8")
        return tuple(str(text) for text in texts.tolist())


def _kind_from_name(path: Path) -> Kind:
    kinds: set[Kind] = {"logits" for word in LOGITS if word in path.stem.lower()}
    kinds |= {"probs" for word in PROBS if word in path.stem.lower()}
    if len(kinds) != 1:
        raise ValueError(f"{path}: unclear from its name whether it holds logits or probabilities; {SET_KIND}")
    return kinds.pop()


@dataclass(frozen=True)
class _Header:
    """The header of an .npy file."""

    name: str  # for messages
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    column_major: bool

    @property
    def size(self) -> int:
        """Bytes of all values."""
        return self.dtype.itemsize * math.prod(self.shape)


def _read_header(file: IO[bytes], size: int, name: str) -> _Header:
    """Read the header of an .npy stream of ``size`` bytes, and check that the array fills it exactly."""
    if size == 0:
        raise ValueError(f"{name} is empty")
    try:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, column_major, dtype = read(file)
    except OSError:
        raise
    except Exception as error:  # numpy's parser raises many types of exceptions for malicious headers
        raise ValueError(f"{name} is damaged or not .npy data: {printable(str(error))}") from None
    if dtype.hasobject:
        raise ValueError(
            f"{name} holds Python objects, which are never unpickled; save numbers, or text as a numpy str array"
        )
    header = _Header(name, dtype, shape, column_major and len(shape) > 1)
    expected = file.tell() + header.size
    if expected > size or any(length < 0 for length in shape):
        raise ValueError(f"{name} is truncated: shape {shape} needs {expected:,} bytes, but it has {size:,}")
    if expected < size:
        raise ValueError(
            f"{name} has {size - expected:,} surplus bytes: shape {shape} needs {expected:,} bytes, but it has "
            f"{size:,}; its header is damaged, or it holds more than one array"
        )
    return header


def _read_blocks(file: IO[bytes], header: _Header, rows: int) -> Iterator[NDArray[Any]]:
    """Yield blocks of examples from a stream positioned after the header."""
    if header.column_major or len(header.shape) == 3:
        yield from _read_copied_blocks(file, header, rows)
        return
    length = header.shape[0]
    for first in range(0, length, rows):
        count = min(rows, length - first)
        # The last byte is also the last of an archive's file, where its checksum is compared.
        yield _read(file, header, count).reshape(count, *header.shape[1:])


def _read_copied_blocks(file: IO[bytes], header: _Header, rows: int) -> Iterator[NDArray[Any]]:
    """Yield blocks of an array whose examples are not stored one after the other, from a mapped temporary copy."""
    if header.size > MAX_COPIED:
        raise ValueError(
            f"{header.name} has {header.size:,} bytes; at most {MAX_COPIED:,} are supported for stochastic passes and "
            "for column-major order; save np.ascontiguousarray() of scores, and passes as .safetensors"
        )
    order: Literal["F", "C"] = "F" if header.column_major else "C"
    with tempfile.TemporaryFile() as copy:
        values = replace(header, shape=(math.prod(header.shape),), column_major=False)
        for block in _read_blocks(file, values, READ_BYTES // header.dtype.itemsize):
            copy.write(block.data)
        copy.flush()
        mapped = np.memmap(copy, header.dtype, "r", shape=header.shape, order=order)
        for first in range(0, header.shape[-2], rows):
            yield np.array(mapped[..., first : first + rows, :], order="C")


def _read(file: IO[bytes], header: _Header, rows: int) -> NDArray[Any]:
    size = rows * header.dtype.itemsize * math.prod(header.shape[1:])
    data = np.empty(size, np.uint8)  # the callers limit the rows, because a header can claim any size
    filled = 0
    while filled < size:
        count = file.readinto(data[filled : filled + READ_BYTES])  # type: ignore[attr-defined]
        if not count:
            raise ValueError(f"{header.name} is truncated: at least {size - filled:,} bytes are missing")
        filled += count
    return data.view(header.dtype)
