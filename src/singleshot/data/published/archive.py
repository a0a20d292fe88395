"""Unpacking archives that anyone may have written: only plain files and folders, only where they belong."""

from __future__ import annotations

import errno
import gzip
import lzma
import shutil
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, cast

MOST_BYTES = 4 * 2**30
MOST_MEMBERS = 1_000_000
LONGEST_NAME, LONGEST_PART = 1000, 120  # characters of up to two bytes or so: file systems take 255 bytes for a part
CHUNK = 2**20
# What the standard library raises for archives that are cut off, damaged or packed in ways it does not know.
TORN = (
    EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile,
    NotImplementedError, ValueError, OverflowError, struct.error,
)  # fmt: skip


class _RefusedError(Exception):
    """A member that must not be unpacked, and why."""


@dataclass(frozen=True)
class _Member:
    """A file or a folder in an archive; ``refused`` says why it must not be unpacked."""

    name: str
    size: int
    content: IO[bytes] | None  # None for a folder
    refused: str | None = None


def extract(
    archive: Path, into: Path, *, most_bytes: int = MOST_BYTES, most_members: int = MOST_MEMBERS
) -> tuple[Path, ...]:
    """Unpack a tar, gzipped or not, or a zip into a folder: all of it or, when anything is wrong, nothing.

    Links, devices, names that lead elsewhere, and more content than allowed are refused with the member's name.

    Returns:
        What stands in ``into`` now: each of the archive's top-level files and folders.
    """
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into, prefix=f".{archive.name}.") as folder:
        unpacked = Path(folder)
        try:
            members = _zip_members if zipfile.is_zipfile(archive) else _tar_members
            _unpack(members(archive, most_bytes), unpacked, most_bytes, most_members)
        except _RefusedError as error:
            raise ValueError(f"{archive}: refused to unpack its member {error}") from None
        except (*TORN, OSError) as error:
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise  # the disk's fault; a place that is nowhere in the archive, or a stream that is none, is its own
            told = f"{archive}: the archive is damaged or cut off ({error}); delete it and download it again"
            raise ValueError(told) from None
        made = sorted(unpacked.iterdir())
        for entry in made:
            if (into / entry.name).exists():
                raise ValueError(f"{into / entry.name} is in the way of what {archive} holds; move it elsewhere")
        return tuple(entry.replace(into / entry.name) for entry in made)


def _unpack(members: Iterator[_Member], folder: Path, most_bytes: int, most_members: int) -> None:
    left = most_bytes
    for count, member in enumerate(members, start=1):
        reason = member.refused or _wrong_name(member.name)
        left -= member.size
        if left < 0:
            reason = f"with it, the archive holds more than {most_bytes:,} bytes"
        elif count > most_members:
            reason = f"it is one more than the {most_members:,} members that are allowed"
        if reason:
            raise _RefusedError(f"{member.name!r}: {reason}")
        try:
            _put(member, folder / PurePosixPath(member.name))
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise _RefusedError(f"{member.name!r}: it is there twice, or inside a file") from None


def _put(member: _Member, target: Path) -> None:
    if member.content is None:
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        shutil.copyfileobj(member.content, file, CHUNK)
    if target.stat().st_size != member.size:
        raise EOFError(f"{member.name!r} has {target.stat().st_size:,} bytes, expected {member.size:,}")


def _wrong_name(name: str) -> str | None:
    """Why a name may not be used, on this system or another: archives travel."""
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    if posix.is_absolute() or windows.drive or windows.root:
        return "its path is absolute"
    if ".." in posix.parts or ".." in windows.parts:
        return "its path leads out of the folder"
    if not name.isprintable():
        return "its name has characters that cannot be shown"
    if len(name) > LONGEST_NAME or any(len(part) > LONGEST_PART for part in posix.parts):
        return "its name is too long"
    return None


def _zip_members(archive: Path, most_bytes: int) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            refused = None
            if info.flag_bits & 1:
                refused = "it is encrypted"
            elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                refused = "it is neither a file nor a folder"
            if refused or info.is_dir() or info.file_size > most_bytes:
                yield _Member(info.filename, info.file_size, None, refused)
                continue
            with opened.open(info) as content:  # reads no more than the size it states, and checks the CRC
                yield _Member(info.filename, info.file_size, content)


def _tar_members(archive: Path, most_bytes: int) -> Iterator[_Member]:
    with archive.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        # Unpacked by gzip rather than tarfile, which would not look at the checksum at the end. Headers count too,
        # hence twice the content: one of them alone can claim gigabytes.
        stream = _Bounded(cast(IO[bytes], gzip.GzipFile(fileobj=file)) if packed else file, 2 * most_bytes + CHUNK)
        with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|") as opened:
            for info in opened:
                if info.isfile() and not info.issparse() and info.size >= 0:
                    yield _Member(info.name, info.size, opened.extractfile(info))
                elif info.isdir():
                    yield _Member(info.name, 0, None)
                else:
                    yield _Member(info.name, 0, None, "it is a link, a device or another special file")
            while stream.read(CHUNK):
                pass  # to the end, where the checksum is
            # tarfile takes a damaged header for the end, and does not miss the empty blocks that mark the real one.
            if stream.content_end > opened.offset or stream.length < opened.offset + tarfile.BLOCKSIZE:
                raise tarfile.ReadError(f"after {opened.offset:,} bytes comes neither a member nor the end")


class _Bounded:
    """A stream that breaks off when it gives more than it may."""

    def __init__(self, stream: IO[bytes], most: int) -> None:
        self._stream, self._most = stream, most
        self.length = 0  # read so far
        self.content_end = 0  # of it, until nothing but zeros comes

    def read(self, size: int) -> bytes:
        chunk = self._stream.read(size)
        if content := len(chunk.rstrip(b"\0")):
            self.content_end = self.length + content
        self.length += len(chunk)
        if self.length > self._most:
            raise tarfile.ReadError(f"it unpacks to more than {self._most:,} bytes")
        return chunk
