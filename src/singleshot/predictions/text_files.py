"""Lines of text files, compressed with gzip or zstd or not, whose length is limited."""

from __future__ import annotations

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
    """Open a text file, decompressed if its name ends in .gz or .zst."""
    name = path.name.lower()
    if name.endswith(".zst"):
        with _zstd(path) as binary, io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as text:
            yield text
        return
    open_text: Any = gzip.open if name.endswith(".gz") else open
    with open_text(path, "rt", encoding="utf-8-sig", newline="") as file:
        yield file


def _zstd(path: Path) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ValueError(f"{path}: reading .zst needs pyarrow: pip install 'singleshot[parquet]'") from None
    return pyarrow.input_stream(path, compression="zstd")


def limited_lines(path: Path, file: IO[str]) -> Iterator[str]:
    """Yield the lines of a file; a few compressed bytes can expand to a line or to blank lines without end."""
    number = blank = 0
    while line := file.readline(MAX_LINE):
        number += 1
        if len(line) >= MAX_LINE:
            raise ValueError(f"{path} has a line of {MAX_LINE:,} characters or more")
        blank = blank + 1 if line.isspace() else 0
        if blank > MAX_BLANK_LINES:
            raise ValueError(f"{path}, line {number}: more than {MAX_BLANK_LINES:,} blank lines in a row")
        yield line
