"""The .npy format as a stream: a checked header, then blocks of rows. Nothing is ever unpickled."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from singleshot.common.text import printable

MAX_COLUMN_MAJOR = 2**30  # bytes of a column-major array, which must be read as a whole
MAX_WHOLE_PASSES = 2**28  # bytes of stochastic passes that are read as a whole
MAX_STREAMED = 2**35  # bytes that the streams of passes read in total: two minutes at 260 MB/s of inflating
READ_BYTES = 2**20  # per read: the stream of an archive copies them


@dataclass(frozen=True)
class ArrayHeader:
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


def read_header(file: IO[bytes], size: int, name: str) -> ArrayHeader:
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
    header = ArrayHeader(name, dtype, shape, column_major and len(shape) > 1)
    expected = file.tell() + header.size
    if expected > size or any(length < 0 for length in shape):
        raise ValueError(f"{name} is truncated: shape {shape} needs {expected:,} bytes, but it has {size:,}")
    return header


def read_blocks(file: IO[bytes], header: ArrayHeader, rows: int) -> Iterator[NDArray[Any]]:
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


def check_passes_size(header: ArrayHeader) -> None:
    """Check that passes (T, N, C) are small enough to be read as a whole, or in streams in reasonable time."""
    if pass_streams(header) == 1:
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


def pass_streams(header: ArrayHeader) -> int:
    """Number of streams that `read_pass_blocks` needs: one that is read as a whole, or one per pass."""
    return 1 if header.size <= MAX_WHOLE_PASSES else header.shape[0]


def read_pass_blocks(files: Sequence[IO[bytes]], header: ArrayHeader, rows: int) -> Iterator[NDArray[Any]]:
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
        for _ in read_blocks(file, replace(header, shape=(number * length, classes)), rows):
            pass
    one_pass = replace(header, shape=(length, classes))
    for blocks in zip(*(read_blocks(file, one_pass, rows) for file in files), strict=True):
        yield np.stack(blocks)


def _too_large(header: ArrayHeader) -> str:
    return f"{header.name} is stored in column-major order and too large; save np.ascontiguousarray() of it"


def _read_whole(file: IO[bytes], header: ArrayHeader) -> NDArray[Any]:
    values = _read(file, header, header.shape[0])
    return values.reshape(header.shape[::-1]).T if header.column_major else values.reshape(header.shape)


def _read(file: IO[bytes], header: ArrayHeader, rows: int) -> NDArray[Any]:
    size = rows * header.row_bytes
    data = np.empty(size, np.uint8)  # bounded by the callers, never just by what a header claims
    filled = 0
    while filled < size:
        count = file.readinto(data[filled : filled + READ_BYTES])  # type: ignore[attr-defined]
        if not count:
            raise ValueError(f"{header.name} is truncated: at least {size - filled:,} bytes are missing")
        filled += count
    return data.view(header.dtype)
