"""Asking a web server for a file, or for the rest of one, and reading what it says about it."""

from __future__ import annotations

import errno
import http.client
import io
import json
import os
import re
import shutil
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from singleshot import __version__
from singleshot.common.files import FolderNotUsableError, exclusive
from singleshot.data.published.check import file_fault, size_fault

CHUNK = 2**18
TIMEOUT = 30.0  # seconds without a sign of life
PASSING = (408, 425, 429, 500, 502, 503, 504)  # answers that may be others in a moment
BEYOND_THE_END = 416


class DownloadError(OSError):
    """Says which address failed, and how."""


class BrokenOffError(Exception):
    """The connection failed in a way that may pass."""


class NotTheRestError(BrokenOffError):
    """The server cannot go on from where it was asked to: its file is another one."""


@dataclass(frozen=True)
class Answer:
    """What the server sends: from which byte on, of how many, and of which version."""

    url: str
    start: int
    total: int | None
    validator: str | None
    body: IO[bytes]

    def chunks(self) -> Iterator[bytes]:
        """What comes over the connection, until it ends."""
        while True:
            try:
                chunk = self.body.read(CHUNK)
            except (OSError, http.client.HTTPException) as error:
                raise BrokenOffError(_reason(error)) from None
            if not chunk:
                return
            yield chunk


@contextmanager
def ask(url: str, start: int = 0, validator: str | None = None) -> Iterator[Answer]:
    """Ask for a file from byte ``start`` on, if it is still the version that the validator names.

    The answer may begin at 0 all the same: the version is another, or the server knows no ranges.
    """
    headers = {"User-Agent": f"singleshot/{__version__}", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
        if validator:
            headers["If-Range"] = validator
    with _open(urllib.request.Request(url, headers=headers)) as response:
        total = _total(response)
        if response.status == BEYOND_THE_END:
            if total != start:
                raise NotTheRestError(f"the server has {total} bytes where {start} are here already")
            yield Answer(url, start, total, validator, io.BytesIO())  # nothing is missing
            return
        if _first(response) not in (0, start):
            raise NotTheRestError("the server sends another range than it was asked for")
        yield Answer(url, _first(response), total, _validator(response), response)


@contextmanager
def _open(request: urllib.request.Request) -> Iterator[http.client.HTTPResponse | urllib.error.HTTPError]:
    url = request.full_url
    try:
        response = _opener().open(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == BEYOND_THE_END and request.has_header("Range"):
                yield error
                return
            told = f"the server answers {error.code} ({error.reason})"
            if error.code in PASSING:
                raise BrokenOffError(told) from None
            raise DownloadError(f"{url}: {told}") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, str | ssl.SSLCertVerificationError):  # asking again would be answered the same
            raise DownloadError(f"{url}: {reason}") from None
        raise BrokenOffError(_reason(error)) from None
    with response:
        yield response


def _opener() -> urllib.request.OpenerDirector:
    """Knows http and https and nothing else: the usual one would follow a server to a local file."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener


def _reason(error: Exception) -> str:
    inner = getattr(error, "reason", error)
    return f"the connection failed ({str(inner) or type(inner).__name__})"


def _first(response: http.client.HTTPResponse | urllib.error.HTTPError) -> int:
    """The byte that the answer begins with."""
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", "")) if response.status == 206 else None
    return int(found[1]) if found else 0


def _total(response: http.client.HTTPResponse | urllib.error.HTTPError) -> int | None:
    """How long the server says the whole file is."""
    whole = re.search(r"/(\d+)$", response.headers.get("Content-Range", ""))
    if whole:
        return int(whole[1])
    length = response.headers.get("Content-Length", "")
    return int(length) if response.status == 200 and length.isdecimal() else None


def _validator(response: http.client.HTTPResponse | urllib.error.HTTPError) -> str | None:
    """A strong name of this version: a weak ETag may stay the same while bytes change."""
    etag = response.headers.get("ETag", "")
    return etag if etag and not etag.startswith("W/") else response.headers.get("Last-Modified")


Progress = Callable[[int, "int | None"], None]
"""Called with the bytes that are here and the bytes there will be, where that is known."""

ATTEMPTS = 4  # failures in a row, with little or nothing gained, before giving up
GAINED = 2**20  # bytes after which a broken connection counts as a fresh start
SCHEMES = ("http", "https")


def download(
    url: str,
    target: Path,
    *,
    size: int | None = None,
    checksum: str | None = None,
    on_progress: Progress | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Download ``url`` to ``target``, which is there afterwards as a whole and as promised, or not at all.

    Args:
        url: an http or https address; redirections stay within these.
        target: the file to make. Where it is there already and as promised, nothing is downloaded.
        size: the bytes it must have; no more is ever written.
        checksum: what it must be, as "sha256:…" or "md5:…".
        on_progress: told how many bytes are here, of how many.
        pause: waits between attempts, for so many seconds.
    """
    if urllib.parse.urlsplit(url).scheme not in SCHEMES:
        raise ValueError(f"url must begin with http:// or https://, got {url!r}")
    try:
        with exclusive(target.parent, before_waiting=lambda: None):
            if target.is_file() and (size or checksum) and file_fault(target, size, checksum) is None:
                return  # the process that was waited for may have brought it
            _download(_Part(target, url, size, checksum), on_progress or (lambda done, total: None), pause)
    except FolderNotUsableError as error:
        raise ValueError(f"the folder {target.parent} {error}; choose another to download to") from None


def _download(part: _Part, on_progress: Progress, pause: Callable[[float], None]) -> None:
    in_one_go = _fill(part, on_progress, pause)
    fault = file_fault(part.path, part.size, part.checksum)
    if fault and not in_one_go:  # what was there before may be damaged, or of another version
        part.discard()
        _fill(part, on_progress, pause)
        fault = file_fault(part.path, part.size, part.checksum)
    if fault:
        part.discard()
        raise DownloadError(f"{part.url}: what came is not what was published ({fault}); it was removed")
    part.put_in_place()


class _Part:
    """The file as far as it has arrived."""

    def __init__(self, target: Path, url: str, size: int | None, checksum: str | None) -> None:
        self.target, self.url, self.size, self.checksum = target, url, size, checksum
        self.path = target.with_name(f"{target.name}.part")
        self.about = target.with_name(f"{target.name}.part.json")

    def length(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def is_complete(self) -> bool:
        return self.size is not None and self.length() == self.size

    def is_of_use(self) -> bool:
        """Whether the rest can be told to belong to it: by the server, or by the checksum in the end."""
        fits = self.size is None or self.length() <= self.size
        return fits and (self.validator() is not None or self.checksum is not None)

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self.about.unlink(missing_ok=True)

    def validator(self) -> str | None:
        """What names the version this is a part of, for the server to compare."""
        try:
            about = json.loads(self.about.read_text(encoding="utf-8"))
            return str(about["validator"]) if about["url"] == self.url and about["validator"] else None
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def open_at(self, answer: Answer) -> IO[bytes]:
        """The file to write the answer to, at its place."""
        if not answer.start:
            self.discard()  # before its new name is noted: a crash in between must not give the old part that name
        self.about.write_text(json.dumps({"url": self.url, "validator": answer.validator}), encoding="utf-8")
        file = self.path.open("r+b" if answer.start else "wb")
        file.seek(answer.start)
        return file

    def put_in_place(self) -> None:
        with self.path.open("rb") as whole:
            os.fsync(whole.fileno())
        self.path.replace(self.target)
        self.about.unlink(missing_ok=True)


def _fill(part: _Part, on_progress: Progress, pause: Callable[[float], None]) -> bool:
    """Bring the part to its full length, over as many connections as it takes; whether one was enough."""
    in_one_go = part.length() == 0
    failures, before = 0, part.length()
    while not part.is_complete():
        try:
            _transfer(part, on_progress)
            break
        except BrokenOffError as error:
            if isinstance(error, NotTheRestError):
                part.discard()
            in_one_go = False
            failures = 1 if part.length() - before >= GAINED else failures + 1
            before = part.length()
            if failures >= ATTEMPTS:
                kept = f"; {before:,} bytes are kept for the next time" if before else ""
                raise DownloadError(f"{part.url}: {error}, {ATTEMPTS} times in a row{kept}") from None
            pause(2.0 ** (failures - 1))
    return in_one_go


def _transfer(part: _Part, on_progress: Progress) -> None:
    """One connection: ask for what is missing, and write what comes."""
    if not part.is_of_use():
        part.discard()
    with ask(part.url, part.length(), part.validator()) as answer:
        total = _checked_total(part, answer)
        done = answer.start
        with part.open_at(answer) as file:
            on_progress(done, total)
            for chunk in answer.chunks():
                done += len(chunk)
                if total is not None and done > total:
                    raise DownloadError(f"{part.url}: sends more than the {total:,} bytes it promised")
                _write(file, chunk, part.path)
                on_progress(done, total)
    if total is not None and done < total:
        raise BrokenOffError(f"the connection ended after {done:,} of {total:,} bytes")


def _checked_total(part: _Part, answer: Answer) -> int | None:
    """The length of the whole; an error where it is not the promised one, or the disk cannot hold it."""
    if None not in (part.size, answer.total) and part.size != answer.total:
        told = size_fault(answer.total or 0, part.size or 0)
        raise DownloadError(f"{part.url}: the server has another file than was published ({told})")
    total = answer.total if part.size is None else part.size
    missing = 0 if total is None else total - answer.start
    free = shutil.disk_usage(part.path.parent).free + (part.length() - answer.start)
    if free < missing:
        raise OSError(errno.ENOSPC, f"the disk has room for {free:,} bytes, {missing:,} are needed", str(part.path))
    return total


def _write(file: IO[bytes], chunk: bytes, path: Path) -> None:
    try:
        file.write(chunk)
        file.flush()
    except OSError as error:
        reason = f"{error.strerror}; what has arrived is kept, and the same command goes on from there"
        raise OSError(error.errno, reason, str(path)) from None
