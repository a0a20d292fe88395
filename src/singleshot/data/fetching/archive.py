"""Safe extraction of untrusted archives: only regular files and folders, only inside the target folder."""

from __future__ import annotations

import errno
import gzip
import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, NamedTuple, cast

MAX_MEMBERS = 1_000_000
MAX_NAME, MAX_NAME_PART = 1000, 120  # characters; most file systems allow 255 bytes per part
CHUNK = 2**20


class _RefusedError(Exception):
    """A member must not be extracted."""


class _Member(NamedTuple):
    name: str
    size: int
    content: IO[bytes] | None  # None for a folder
    refused: str | None = None  # why it must not be extracted


def extract(archive: Path, into: Path, *, max_bytes: int) -> None:
    """Extract a tar.gz or zip file completely, or not at all if anything is wrong.

    Links, devices, names that lead out of the folder, and content beyond the limits are refused.
    """
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into, prefix=f".{archive.name}.") as folder:
        extracted = Path(folder)
        try:
            members = _zip_members if zipfile.is_zipfile(archive) else _tar_members
            _extract_members(members(archive, max_bytes), extracted, max_bytes)
        except _RefusedError as error:
            raise ValueError(f"{archive}: refused to extract {error}") from None
        except Exception as error:
            # A damaged archive can raise any exception. Invalid offsets raise EINVAL, or an OSError without errno.
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise
            reason = f"the archive is damaged or truncated ({error}); delete it and download it again"
            raise ValueError(f"{archive}: {reason}") from None
        entries = sorted(extracted.iterdir())
        for entry in entries:
            if (into / entry.name).exists():
                raise ValueError(f"{into / entry.name} already exists, so {archive} cannot be extracted; move it away")
        for entry in entries:
            entry.replace(into / entry.name)


def _extract_members(members: Iterator[_Member], folder: Path, max_bytes: int) -> None:
    remaining = max_bytes
    for count, member in enumerate(members, start=1):
        reason = member.refused or _name_fault(member.name)
        remaining -= member.size
        if remaining < 0:
            reason = f"the archive contains more than {max_bytes:,} bytes"
        elif count > MAX_MEMBERS:
            reason = f"the archive contains more than {MAX_MEMBERS:,} members"
        if reason:
            raise _RefusedError(f"{member.name!r}: {reason}")
        target = folder / PurePosixPath(member.name)
        try:
            if member.content is None:
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                shutil.copyfileobj(member.content, file, CHUNK)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise _RefusedError(f"{member.name!r}: it is a duplicate or inside a file") from None
        if target.stat().st_size != member.size:
            raise EOFError(f"{member.name!r} has {target.stat().st_size:,} bytes, expected {member.size:,}")


def _name_fault(name: str) -> str | None:
    """Return why a name is unsafe on POSIX or Windows systems, or None."""
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    if posix.is_absolute() or windows.drive or windows.root:
        return "its path is absolute"
    if ".." in posix.parts or ".." in windows.parts:
        return "its path leads out of the folder"
    if not name.isprintable():
        return "its name has unprintable characters"
    if len(name) > MAX_NAME or any(len(part) > MAX_NAME_PART for part in posix.parts):
        return "its name is too long"
    return None


def _zip_members(archive: Path, max_bytes: int) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            refused = None
            if info.flag_bits & 1:
                refused = "it is encrypted"
            elif stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
                refused = "it is neither a file nor a folder"
            if refused or info.is_dir() or info.file_size > max_bytes:
                yield _Member(info.filename, info.file_size, None, refused)
                continue
            with opened.open(info) as content:  # reads at most the stated size and checks the CRC
                yield _Member(info.filename, info.file_size, content)


def _tar_members(archive: Path, max_bytes: int) -> Iterator[_Member]:
    with gzip.open(archive) as content:
        # The limit is twice the content because of the headers, one of which can claim gigabytes.
        stream = _BoundedStream(cast(IO[bytes], content), 2 * max_bytes + CHUNK)
        with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|") as opened:
            for info in opened:
                if info.isfile() and not info.issparse() and info.size >= 0:
                    yield _Member(info.name, info.size, opened.extractfile(info))
                elif info.isdir():
                    yield _Member(info.name, 0, None)
                else:
                    yield _Member(info.name, 0, None, "it is a link, a device or another special file")
        while stream.read(CHUNK):
            pass  # gzip verifies the checksum at the end of the file, which tarfile does not read


class _BoundedStream:
    """A stream that fails after a maximum number of bytes."""

    def __init__(self, stream: IO[bytes], max_bytes: int) -> None:
        self._stream = stream
        self._remaining = max_bytes

    def read(self, size: int) -> bytes:
        chunk = self._stream.read(size)
        self._remaining -= len(chunk)
        if self._remaining < 0:
            raise tarfile.ReadError("it decompresses to many more bytes than expected")
        return chunk
