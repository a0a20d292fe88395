"""Atomic writes, checksums, and folders locked against other processes."""

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


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call ``write`` with a temporary path next to ``path``, then move the file into place in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        temporary = Path(folder) / path.name
        try:
            write(temporary)
            with temporary.open("rb") as written:
                os.fsync(written.fileno())  # on disk before it replaces the old file
        except OSError as error:
            if error.errno is not None and error.filename in {None, str(temporary)}:
                error.filename = str(path)  # name the target, not the temporary file
            raise
        temporary.replace(path)


def write_text(path: Path, text: str) -> None:
    """Write text atomically."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def check_writable(path: Path) -> None:
    """Raise ValueError if a file cannot be created at this path; its missing parents are not created."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ValueError(f"{path} cannot be written to ({error.strerror}: {folder})") from None


def fingerprint(path: Path) -> dict[str, int | str]:
    """Return the size and SHA-256 checksum of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}


class FolderNotUsableError(Exception):
    """A folder cannot be written to or is in use."""


@contextmanager
def exclusive(folder: Path, *, before_waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Create the folder if necessary and lock it against other processes.

    If the folder is locked, raise `FolderNotUsableError`, or with ``before_waiting`` call it and wait for the lock. The
    lock is released when the process ends. On systems without file locks nothing is locked.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise FolderNotUsableError(f"cannot be written to ({error.strerror})") from None
    with lock:
        if fcntl is not None and not _try_lock(lock):
            if before_waiting is None:
                raise FolderNotUsableError("is in use by another singleshot process")
            before_waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_held(folder: Path) -> bool:
    """Return whether a process has locked the folder with `exclusive`; False on systems without file locks."""
    if fcntl is None or not (folder / ".lock").exists():
        return False
    with (folder / ".lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released when the file is closed
        except OSError:
            return True
        return False


def _try_lock(lock: IO[str]) -> bool:
    """Try to take the lock for a second, because `is_held` holds it for an instant."""
    for _ in range(10):
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(0.1)
    return False
