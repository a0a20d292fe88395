"""Predictions in .npz archives and in pairs of .npy files, read as streams of rows. Nothing is ever unpickled."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from singleshot.common.text import printable
from singleshot.predictions.arrays import MAX_LABEL_LENGTH, StoredArray, from_arrays, open_arrays
from singleshot.predictions.file import Predictions
from singleshot.predictions.selection import ARRAY_KINDS, SET_KIND, Kind, Selection
from singleshot.predictions.validation import LABEL_MEANINGS

MAX_COLUMN_MAJOR = 2**30  # bytes of a column-major array, which must be read as a whole
MAX_WHOLE_PASSES = 2**28  # bytes of stochastic passes that are read as a whole
MAX_STREAMED = 2**35  # bytes that the streams of passes read in total: two minutes of decompression at 260 MB/s
READ_BYTES = 2**20  # per read, because the stream of an archive makes a copy
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
            _check_passes_size(header)

    def read(rows: int) -> Iterator[NDArray[Any]]:
        with zipfile.ZipFile(path) as reopened, ExitStack() as stack:
            file, header = stack.enter_context(_opened_member(path, reopened, name))
            if len(header.shape) != 3:
                yield from _read_blocks(file, header, rows)
                return
            others = range(_pass_streams(header) - 1)
            files = [file, *(stack.enter_context(_opened_member(path, reopened, name))[0] for _ in others)]
            yield from _read_pass_blocks(files, header, rows)

    return StoredArray(header.name, header.dtype, header.shape, read)


def _file_array(path: Path) -> StoredArray:
    with _opened_file(path) as (_, header):
        pass

    def read(rows: int) -> Iterator[NDArray[Any]]:
        with _opened_file(path) as (file, header):
            yield from _read_blocks(file, header, rows)

    return StoredArray(header.name, header.dtype, header.shape, read)


@contextmanager
def _opened_member(path: Path, archive: zipfile.ZipFile, name: str) -> Iterator[tuple[IO[bytes], _Header]]:
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
        texts: NDArray[Any] = np.concatenate([np.empty(0, header.dtype), *_read_blocks(file, header, 2**16)])
        if header.dtype.kind == "S":
            texts = np.char.decode(texts, "utf-8")
        return tuple(str(text) for text in texts.tolist())


def _kind_from_name(path: Path) -> Kind:
    kinds = {kind for word, kind in ARRAY_KINDS.items() if word in path.stem.lower()}
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
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.dtype.itemsize * math.prod(self.shape[1:])

    @property
    def size(self) -> int:
        """Bytes of all values."""
        return self.dtype.itemsize * math.prod(self.shape)


def _read_header(file: IO[bytes], size: int, name: str) -> _Header:
    """Read the header of an .npy stream of ``size`` bytes, and check that the array is not larger."""
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
    return header


def _read_blocks(file: IO[bytes], header: _Header, rows: int) -> Iterator[NDArray[Any]]:
    """Yield blocks of rows from a stream positioned after the header."""
    length = header.shape[0]
    if header.column_major:  # the first row is complete only at the end of the file
        if header.size > MAX_COLUMN_MAJOR:
            raise ValueError(_too_large(header))
        whole = _read_whole(file, header)
        for first in range(0, length, rows):
            yield np.ascontiguousarray(whole[first : first + rows])
        return
    for first in range(0, length, rows):
        count = min(rows, length - first)
        yield _read(file, header, count).reshape(count, *header.shape[1:])


def _check_passes_size(header: _Header) -> None:
    """Check that passes (T, N, C) are small enough to be read as a whole, or in streams in reasonable time."""
    if _pass_streams(header) == 1:
        return
    if header.column_major:
        raise ValueError(_too_large(header))
    passes = header.shape[0]
    total = header.size * (passes + 1) // 2
    if total > MAX_STREAMED:
        raise ValueError(
            f"{header.name} has {header.size:,} bytes, and reading its {passes:,} passes in parallel streams takes "
            f"{total:,}, more than {MAX_STREAMED:,}; store them as .safetensors, or store fewer passes"
        )


def _pass_streams(header: _Header) -> int:
    """Number of streams that `_read_pass_blocks` needs: one that is read as a whole, or one per pass."""
    return 1 if header.size <= MAX_WHOLE_PASSES else header.shape[0]


def _read_pass_blocks(files: Sequence[IO[bytes]], header: _Header, rows: int) -> Iterator[NDArray[Any]]:
    """Yield blocks (T, n, C) of an array (T, N, C) from streams positioned after the header.

    The passes are stored one after the other, and a block needs rows of each. A single stream is read as a whole. Each
    of T streams reads through the passes before its own, T² / 2 in total, but memory holds only one block.
    """
    if len(files) == 1:
        whole = _read_whole(files[0], header)
        for first in range(0, header.shape[1], rows):
            yield np.ascontiguousarray(whole[:, first : first + rows])
        return
    _, length, classes = header.shape
    for number, file in enumerate(files):
        # Reading instead of seeking lets the last stream verify the archive's checksum.
        for _ in _read_blocks(file, replace(header, shape=(number * length, classes)), rows):
            pass
    one_pass = replace(header, shape=(length, classes))
    for blocks in zip(*(_read_blocks(file, one_pass, rows) for file in files), strict=True):
        yield np.stack(blocks)


def _too_large(header: _Header) -> str:
    return f"{header.name} is stored in column-major order and too large; save np.ascontiguousarray() of it"


def _read_whole(file: IO[bytes], header: _Header) -> NDArray[Any]:
    values = _read(file, header, header.shape[0])
    return values.reshape(header.shape[::-1]).T if header.column_major else values.reshape(header.shape)


def _read(file: IO[bytes], header: _Header, rows: int) -> NDArray[Any]:
    size = rows * header.row_bytes
    data = np.empty(size, np.uint8)  # bounded by the callers, because a header can claim any size
    filled = 0
    while filled < size:
        count = file.readinto(data[filled : filled + READ_BYTES])  # type: ignore[attr-defined]
        if not count:
            raise ValueError(f"{header.name} is truncated: at least {size - filled:,} bytes are missing")
        filled += count
    return data.view(header.dtype)
