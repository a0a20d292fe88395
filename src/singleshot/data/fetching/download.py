"""HTTP downloads with resume, bounded retries and verification."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from singleshot import __version__
from singleshot.data.fetching.check import ProgressCallback, file_fault

CHUNK = 2**18
TIMEOUT = 30.0  # seconds without any data
TEMPORARY_ERRORS = (408, 425, 429, 500, 502, 503, 504)
RANGE_NOT_SATISFIABLE = 416
MAX_FAILURES = 4  # without PROGRESS new bytes in between
PROGRESS = 2**20
MIN_RATE = 2**10  # bytes per second, over a WINDOW: a slower server counts as a failed connection
WINDOW = 60.0  # seconds; also the time for connecting, redirects and headers together


class DownloadError(OSError):
    """A download failed; the message contains the URL and the reason."""


class _TransferError(Exception):
    """The transfer failed for a reason that may be temporary."""


def download_file(url: str, target: Path, *, size: int, checksum: str, on_progress: ProgressCallback) -> None:
    """Download a file, verify it and only then move it to ``target``.

    The checksum is "sha256:…" or "md5:…". The bytes received so far are kept in ``TARGET.part``, and the next call
    resumes from there. The caller must make sure that no other process downloads to the same target.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    resumed = _receive(url, part, size, on_progress)
    fault = file_fault(part, size, checksum)
    if fault and resumed:  # the earlier bytes may be damaged or belong to another version
        part.unlink()
        _receive(url, part, size, on_progress)
        fault = file_fault(part, size, checksum)
    if fault:
        part.unlink()
        raise DownloadError(f"{url}: the downloaded file differs from the published one ({fault}); it was removed")
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(target)


def _receive(url: str, part: Path, size: int, on_progress: ProgressCallback) -> bool:
    """Complete the partial file, over several connections if needed. Return whether it was resumed."""
    if _length(part) > size:
        part.unlink()
    resumed = _length(part) > 0
    failures, most = 0, _length(part)
    while _length(part) < size:
        try:
            _transfer(url, part, size, on_progress)
            break
        except _TransferError as error:
            resumed = True
            length = _length(part)
            # Only bytes beyond the most ever received count as progress, so the number of attempts is bounded.
            if length >= most + PROGRESS:
                failures, most = 0, length
            failures += 1
            if failures >= MAX_FAILURES:
                kept = f"; {length:,} bytes are kept to resume from" if length else ""
                raise DownloadError(f"{url}: {error}; gave up after {MAX_FAILURES} attempts{kept}") from None
            time.sleep(2.0 ** (failures - 1))
    return resumed


def _transfer(url: str, part: Path, size: int, on_progress: ProgressCallback) -> None:
    """Request the missing bytes over one connection and write them to the partial file."""
    start = _length(part)
    headers = {"User-Agent": f"singleshot/{__version__}", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    with _network_errors(url, part):
        response = _open(urllib.request.Request(url, headers=headers))
    with response:
        total = response.headers.get("Content-Range", "").rpartition("/")[2]
        if response.status != 206:  # the server ignored the range
            start, total = 0, response.headers.get("Content-Length", "")
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            part.unlink(missing_ok=True)
            raise _TransferError("the server sent a different range than requested")
        if total.isdecimal() and int(total) != size:
            raise DownloadError(f"{url}: the server has a different file ({int(total):,} bytes, expected {size:,})")
        done = start
        with part.open("ab" if start else "wb") as file, _minimum_rate(response, part):
            on_progress(done, size)
            while True:
                with _network_errors(url, part):
                    chunk = response.read1(CHUNK)  # what has arrived: a full chunk of a slow server may take hours
                if not chunk:
                    break
                done += len(chunk)
                if done > size:
                    raise DownloadError(f"{url}: the server sent more than the expected {size:,} bytes")
                _write(file, chunk, part)
                on_progress(done, size)
            if done < size:
                raise _TransferError(f"the connection ended after {done:,} of {size:,} bytes")


def _open(request: urllib.request.Request) -> http.client.HTTPResponse:
    """Return the response once its headers are complete; raise TimeoutError if that takes longer than a WINDOW.

    The timeout of a socket bounds the wait for each byte, not for all headers; hence a thread, which may stay behind.
    """
    opened: Future[http.client.HTTPResponse] = Future()

    def run() -> None:
        try:
            opened.set_result(urllib.request.urlopen(request, timeout=TIMEOUT))
        except BaseException as error:  # raised again in the thread that waits
            opened.set_exception(error)

    def close(late: Future[http.client.HTTPResponse]) -> None:
        if late.exception() is None:
            late.result().close()

    threading.Thread(target=run, daemon=True).start()
    if not wait([opened], WINDOW).done:
        opened.add_done_callback(close)
        raise TimeoutError(f"no complete headers in {WINDOW:g} seconds")
    return opened.result()


@contextmanager
def _minimum_rate(response: http.client.HTTPResponse, part: Path) -> Iterator[None]:
    """End the connection, and raise a _TransferError, if the partial file grows too slowly over a WINDOW.

    This is done from another thread, since reading the length of a chunk may itself take for ever.
    """
    if response.isclosed():  # nothing to read
        yield
        return
    finished, faults = threading.Event(), list[str]()

    def watch() -> None:
        before = _length(part)
        while not finished.wait(WINDOW):
            length = _length(part)
            if length - before < MIN_RATE * WINDOW:
                faults.append(f"the server sent {length - before:,} bytes in {WINDOW:g} seconds")
                with suppress(OSError):  # it has ended by itself
                    connection.shutdown(socket.SHUT_RDWR)
                return
            before = length

    with socket.fromfd(response.fileno(), socket.AF_INET, socket.SOCK_STREAM) as connection:
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        except _TransferError as error:
            raise _TransferError(faults[0] if faults else str(error)) from None
        finally:
            finished.set()
            watcher.join()


@contextmanager
def _network_errors(url: str, part: Path) -> Iterator[None]:
    """Raise a _TransferError for errors that may be temporary, and a DownloadError for others."""
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        reason = f"the server responded with {error.code} ({error.reason})"
        if error.code == RANGE_NOT_SATISFIABLE:
            part.unlink(missing_ok=True)
        elif error.code not in TEMPORARY_ERRORS:
            raise DownloadError(f"{url}: {reason}") from None
        raise _TransferError(reason) from None
    except (OSError, http.client.HTTPException) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(cause, str | ssl.SSLCertVerificationError):  # another attempt would fail the same way
            raise DownloadError(f"{url}: {cause}") from None
        raise _TransferError(f"the connection failed ({str(cause) or type(cause).__name__})") from None


def _write(file: IO[bytes], chunk: bytes, path: Path) -> None:
    try:
        file.write(chunk)
        file.flush()
    except OSError as error:
        reason = f"{error.strerror}; the bytes received so far are kept, run the same command again to resume"
        raise OSError(error.errno, reason, str(path)) from None


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
