"""The .npy format as a stream: a header that is checked, then blocks of rows. Nothing is ever unpickled."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from tokenize import TokenError  # numpy's way to read the headers of Python 2 meets damaged ones too
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from singleshot.common.text import printable

MOST_AT_ONCE = 2**30  # bytes of an array that can only be read whole
MOST_WHOLE = 2**28  # bytes of passes that are read whole, which is once
MOST_READ = 2**35  # bytes that the streams of passes read in all: two minutes where they inflate 260 MB/s
READ_AT_ONCE = 2**20  # bytes; an archive's stream makes a copy of them
SKIPPED_AT_ONCE = 2**16  # bytes; an inflating stream may keep as many for later
LONGEST_TEXT = 4096  # bytes of one label
DAMAGE = (
    *(ValueError, KeyError, EOFError, SyntaxError, TokenError),
    *(IndexError, TypeError, RecursionError, MemoryError),  # from numpy's reading of a header made to do harm
)


@dataclass(frozen=True)
class ArrayHeader:
    """What the start of an .npy file says about the rest."""

    what: str  # names the array in errors
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    columns_first: bool
    offset: int  # where the values begin

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.dtype.itemsize * math.prod(self.shape[1:])

    @property
    def size(self) -> int:
        """Bytes of all values."""
        return self.dtype.itemsize * math.prod(self.shape)


def read_header(file: IO[bytes], size: int, what: str) -> ArrayHeader:
    """The header of an .npy stream of this many bytes; it must not promise more than they hold."""
    if size == 0:
        raise ValueError(f"{what} is empty")
    try:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, columns_first, dtype = read(file)
    except DAMAGE as error:
        raise ValueError(f"{what} is damaged, or no .npy data: {printable(str(error))}") from None
    if dtype.hasobject:
        raise ValueError(
            f"{what} holds Python objects, which are never unpickled here; save numbers, or text as a numpy str array"
        )
    header = ArrayHeader(what, dtype, shape, columns_first and len(shape) > 1, file.tell())
    promised = header.offset + header.size
    if promised > size or any(length < 0 for length in shape):
        raise ValueError(f"{what} is cut off: its header promises shape {shape}, {promised:,} bytes, of {size:,}")
    return header


def check_scores_header(header: ArrayHeader) -> None:
    """Refuse what cannot be scores (N, C)."""
    check_scores_shape(header.what, str(header.dtype), header.dtype.kind == "f", header.shape)


def check_scores_shape(what: str, dtype: str, is_float: bool, shape: tuple[int, ...]) -> None:
    """Refuse scores that are not floating point of shape (N, C)."""
    if len(shape) != 2:
        raise ValueError(f"{what} must have shape (N, C), a score per class, got {shape}; two classes are two columns")
    if not is_float:
        raise ValueError(f"{what} must be floating point, got {dtype}")


def check_labels_header(header: ArrayHeader) -> None:
    """Refuse what cannot be labels (N,)."""
    if len(header.shape) != 1:
        raise ValueError(f"{header.what} must have shape (N,), one label per example, got {header.shape}")
    if header.dtype.kind not in "iuUS":
        raise ValueError(f"{header.what} must be integers or class names, got {header.dtype}")
    if header.dtype.itemsize > LONGEST_TEXT:
        raise ValueError(f"{header.what} has labels of {header.dtype.itemsize:,} bytes each; {LONGEST_TEXT:,} at most")


def check_lengths(scores: str, labels: str, rows: int, label_rows: int) -> None:
    """Refuse scores and labels of different lengths."""
    if rows != label_rows:
        raise ValueError(f"{scores} has {rows:,} rows and {labels} has {label_rows:,}; each example needs one of each")


def read_blocks(file: IO[bytes], header: ArrayHeader, rows: int) -> Iterator[NDArray[Any]]:
    """Blocks of so many rows, from a stream that stands where the values begin."""
    length = header.shape[0]
    if header.columns_first:
        # Its first row is complete only at the end of the file.
        if header.size > MOST_AT_ONCE:
            raise ValueError(_too_large_by_columns(header))
        whole = _read_whole(file, header)
        for first in range(0, length, rows):
            yield np.ascontiguousarray(whole[first : first + rows])
        return
    for first in range(0, length, rows):
        count = min(rows, length - first)
        yield _read(file, header, count).reshape(count, *header.shape[1:])


def check_passes_size(header: ArrayHeader) -> None:
    """Refuse passes (T, N, C) that are too large to be read whole, and would take too long in streams."""
    if streams_of_passes(header) == 1:
        return
    if header.columns_first:
        raise ValueError(_too_large_by_columns(header))
    passes = header.shape[0]
    in_all = header.size * (passes + 1) // 2
    if in_all > MOST_READ:
        raise ValueError(
            f"{header.what} takes {header.size:,} bytes, and reading its {passes:,} passes side by side would take "
            f"{in_all:,}; {MOST_READ:,} can be read: store them as .safetensors, or store fewer passes"
        )


def streams_of_passes(header: ArrayHeader) -> int:
    """How many streams `read_blocks_of_passes` needs: one that is read whole, or one for each of the T passes."""
    return 1 if header.size <= MOST_WHOLE else header.shape[0]


def read_blocks_of_passes(files: Sequence[IO[bytes]], header: ArrayHeader, rows: int) -> Iterator[NDArray[Any]]:
    """Blocks (T, n, C) of an array (T, N, C), from streams that stand where the values begin.

    The passes lie one after the other, and a block needs rows of each. A single stream is read whole. Each of T
    streams reads through the passes before its own, T² / 2 in all, so that memory holds no more than a block.
    """
    if len(files) == 1:
        whole = _read_whole(files[0], header)
        for first in range(0, header.shape[1], rows):
            yield np.ascontiguousarray(whole[:, first : first + rows])
        return
    for number, file in enumerate(files):
        _skip(file, header, number * header.row_bytes)
    one_pass = replace(header, shape=header.shape[1:])
    for blocks in zip(*(read_blocks(file, one_pass, rows) for file in files), strict=True):
        yield np.stack(blocks)


def _skip(file: IO[bytes], header: ArrayHeader, left: int) -> None:
    # Read and not sought: so the last stream meets every byte, and the archive's checksum of them.
    while left:
        got = len(file.read(min(left, SKIPPED_AT_ONCE)))
        if not got:
            raise ValueError(f"{header.what} is cut off: it should go on for {left:,} bytes and more")
        left -= got


def _too_large_by_columns(header: ArrayHeader) -> str:
    return f"{header.what} is stored by columns and too large; save np.ascontiguousarray() of it"


def _read_whole(file: IO[bytes], header: ArrayHeader) -> NDArray[Any]:
    values = _read(file, header, header.shape[0])
    return values.reshape(header.shape[::-1]).T if header.columns_first else values.reshape(header.shape)


def _read(file: IO[bytes], header: ArrayHeader, rows: int) -> NDArray[Any]:
    wanted = rows * header.row_bytes
    data = np.empty(wanted, np.uint8)  # a bounded part, or a bounded whole: never just what a header claims
    got = 0
    while got < wanted:
        more = file.readinto(data[got : got + READ_AT_ONCE])  # type: ignore[attr-defined]
        if not more:
            break
        got += more
    if got != wanted:
        raise ValueError(f"{header.what} is cut off: it should go on for {wanted - got:,} bytes and more")
    return data.view(header.dtype)
