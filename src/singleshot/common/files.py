"""Files: written so that a reader, or a crash, never meets half of one; and known by their checksums."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a temporary neighbour of ``path``, then put it in place in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        temporary = Path(folder) / path.name
        try:
            write(temporary)
            with temporary.open("rb") as written:
                os.fsync(written.fileno())  # on disk before it takes the old one's place
        except OSError as error:
            if error.errno is not None and error.filename in {None, str(temporary)}:
                error.filename = str(path)  # a full disk names none, and nobody knows the temporary one
            raise
        temporary.replace(path)


def fingerprint(path: Path) -> dict[str, int | str]:
    """The size of a file and its checksum, by which a copy is known."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}


def write_text(path: Path, text: str) -> None:
    """Write text atomically."""

    def write(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8")

    write_atomically(path, write)


class FolderNotUsableError(Exception):
    """Says why a folder cannot be worked in."""


@contextmanager
def exclusive(folder: Path, *, before_waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Make the folder if need be, and hold it against a second process that would write there.

    A folder that another process holds is refused; with ``before_waiting``, that is called and the folder waited for.
    The hold ends with the process, however that ends. Where the system has no such locks, nothing is held.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise FolderNotUsableError(f"cannot be written to ({error.strerror})") from None
    with lock:
        if fcntl is not None and not _taken(lock):
            if before_waiting is None:
                raise FolderNotUsableError("is in use by another singleshot process")
            before_waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_held(folder: Path) -> bool:
    """Whether a process works in this folder now, as `exclusive` lets it; unknown, and so False, without such locks."""
    if fcntl is None or not (folder / ".lock").exists():
        return False
    with (folder / ".lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # and let go of at once
        except OSError:
            return True
        return False


def _taken(lock: IO[str]) -> bool:
    """Whether the lock could be had; it is tried for a second, for one who only looks holds it for an instant."""
    for _ in range(10):
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(0.1)
    return False
