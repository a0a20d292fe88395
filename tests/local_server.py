"""A local web server that misbehaves on demand."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Page:
    """The response for a path."""

    body: bytes = b""
    ranges: bool = True
    content_range: str | None = None  # sent instead of the correct one
    status: int = 200
    location: str | None = None
    cuts: list[int] = field(default_factory=list)  # the connection is closed after this many bytes, once each
    states_length: bool = True
    pause: float | None = None  # seconds after every byte of the body
    trickles: str | None = None  # sends bytes of this for ever: "headers", or the "length" of a chunk


@dataclass
class Site:
    """The pages by path, and the requests received, as path and Range header."""

    url: str
    pages: dict[str, Page] = field(default_factory=dict)
    requests: list[tuple[str, str | None]] = field(default_factory=list)


@contextmanager
def serve() -> Iterator[Site]:
    """Run the server within the block."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.site = Site(f"http://127.0.0.1:{server.server_port}")  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.site  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that close the connection."""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        site: Site = self.server.site  # type: ignore[attr-defined]
        wanted = self.headers.get("Range")
        site.requests.append((self.path, wanted))
        page = site.pages.get(self.path, Page(status=404))
        if page.trickles:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            self.wfile.write(b"X-Long: " if page.trickles == "headers" else b"Transfer-Encoding: chunked\r\n\r\n")
            for _ in range(3000):  # a minute: tests end
                self.wfile.write(b"0")
                threading.Event().wait(0.02)
            return
        if page.location:
            self.send_response(302)
            self.send_header("Location", page.location)
            self.end_headers()
            return
        if page.status != 200:
            self.send_error(page.status)
            return
        start, total = 0, len(page.body)
        if wanted and page.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            self.send_response(206 if start < total else 416)
            correct = f"bytes {start}-{total - 1}/{total}" if start < total else f"bytes */{total}"
            self.send_header("Content-Range", page.content_range or correct)
        else:
            self.send_response(200)
        if page.states_length:
            self.send_header("Content-Length", str(max(0, total - start)))
        self.end_headers()
        for place in range(start, total if page.pause else start):
            self.wfile.write(page.body[place : place + 1])
            threading.Event().wait(page.pause)
        self.wfile.write(page.body[start : start + page.cuts.pop(0)] if page.cuts else page.body[start:])

    def log_message(self, format: str, *args: object) -> None:
        pass
