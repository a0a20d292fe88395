"""Lines of text files, compressed with gzip or zstd or not, whose length is limited."""

from __future__ import annotations

import codecs
import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

MAX_LINE = 2**26  # characters: four million classes of 16 digits
MAX_BLANK_LINES = 2**20  # in a row; a few bytes of gzip can expand to any number
BLOCK_CHARACTERS = 2**24  # of the rows held at a time, including unused columns


@contextmanager
def opened_text(path: Path) -> Iterator[IO[str]]:
    """Open a text file, decompressed if its name ends in .gz or .zst; UTF-8, or UTF-16 with a byte order mark."""
    with _opened_bytes(path) as file:
        start = file.read(2)
    encoding = "utf-16" if start in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE} else "utf-8-sig"
    with _opened_bytes(path) as binary, io.TextIOWrapper(binary, encoding=encoding, newline="") as text:
        yield text


def _opened_bytes(path: Path) -> Any:
    name = path.name.lower()
    if name.endswith(".zst"):
        return _zstd(path)
    return gzip.open(path) if name.endswith(".gz") else path.open("rb")


def _zstd(path: Path) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ValueError(f"{path}: reading .zst needs pyarrow: pip install 'singleshot[parquet]'") from None
    return pyarrow.input_stream(path, compression="zstd")


def limited_lines(path: Path, file: IO[str]) -> Iterator[str]:
    """Yield the lines of a file; a few compressed bytes can expand to a line or to blank lines without end."""
    number = blank = 0
    while line := _line(path, file, number):
        number += 1
        if len(line) >= MAX_LINE:
            raise ValueError(f"{path} has a line of {MAX_LINE:,} characters or more")
        blank = blank + 1 if line.isspace() else 0
        if blank > MAX_BLANK_LINES:
            raise ValueError(f"{path}, line {number}: more than {MAX_BLANK_LINES:,} blank lines in a row")
        yield line


def _line(path: Path, file: IO[str], before: int) -> str:
    """Read a line; text that is not UTF-8 but not binary either is named, with its line."""
    try:
        return file.readline(MAX_LINE)
    except UnicodeDecodeError as error:
        data, start = error.object, error.start
        if error.encoding != "utf-8" or b"\0" in data:
            raise
        line = before + 1 + data.count(b"\n", 0, start)
        raise ValueError(
            f"{path}, line {line}: not UTF-8 text (byte {data[start]:#04x}); save the file as CSV UTF-8"
        ) from None
