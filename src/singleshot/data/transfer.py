"""Asking a web server for a file, or for the rest of one, and reading what it says about it."""

from __future__ import annotations

import http.client
import io
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from singleshot import __version__

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
