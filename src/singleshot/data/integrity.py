"""Whether a file is the one that was published: its size and its checksum."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from pathlib import Path
from typing import IO, cast

CHUNK = 2**20


def file_fault(path: Path, size: int | None, checksum: str | None) -> str | None:
    """What is wrong with a file, found beside expected, or None; a checksum is "sha256:…" or "md5:…"."""
    found = path.stat().st_size
    if size is not None and found != size:
        return size_fault(found, size)  # without reading it
    with path.open("rb") as file:
        return _content_fault(file, size, checksum)


def gzipped_fault(path: Path, size: int | None, checksum: str | None) -> str | None:
    """What is wrong with what a gzipped file unpacks to, or None."""
    try:
        with gzip.open(path) as file:
            fault = _content_fault(cast(IO[bytes], file), size, checksum)
            return f"unpacks to {fault}" if fault else None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        return f"cannot be unpacked ({error})"


def size_fault(found: int, expected: int) -> str:
    """How a wrong size is told."""
    return f"{found:,} bytes, expected {expected:,}"


def _content_fault(file: IO[bytes], size: int | None, checksum: str | None) -> str | None:
    algorithm = "md5" if checksum is None else checksum.partition(":")[0]
    digest = hashlib.new(algorithm, usedforsecurity=False)  # some publishers state nothing better than md5
    found = 0
    while chunk := file.read(CHUNK):
        found += len(chunk)
        if size is not None and found > size:  # not followed further: it may unpack without end
            return f"more than {size_fault(size, size)}"
        digest.update(chunk)
    if size is not None and found != size:
        return size_fault(found, size)
    computed = f"{algorithm}:{digest.hexdigest()}"
    return None if checksum in (None, computed) else f"checksum {computed}, expected {checksum}"
