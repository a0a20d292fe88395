"""Downloads from servers on this machine that misbehave: verified, or refused after a bounded number of requests."""

from __future__ import annotations

import time

from local_server import Page, serve
from singleshot.data.fetching import download
from singleshot.data.fetching.download import MAX_FAILURES, DownloadError, download_file
from small_publications import sha256
from torture.mutation import mutated
from torture.tally import Tally

CASES = 6
BODY = bytes(range(256)) * 2048  # half a mebibyte


def misbehaving_servers(tally: Tally) -> None:
    """Download a file from servers that break off, lie about ranges and lengths, redirect, trickle or send garbage."""
    random = tally.random
    download.TIMEOUT, download.WINDOW, time.sleep = 2.0, 0.3, lambda seconds: None
    with serve() as site:
        for number in range(CASES):
            target = tally.folder / str(number) / "file.bin"
            target.parent.mkdir()
            body = BODY if random.random() < 0.6 else mutated(BODY, random)[1]
            site.pages["/f"] = page = Page(
                body,
                ranges=random.random() < 0.7,
                content_range=random.choice(
                    [None, None, "nonsense", "bytes 0-1/2", "bytes */x", "bytes 5-9/999999999"]
                ),
                status=random.choice([200] * 6 + [403, 500, 503]),
                location=random.choice([None] * 8 + ["/f", "file:///etc/passwd"]),
                cuts=[random.randrange(len(body)) for _ in range(random.choice([0, 0, 1, 3, 50]))],
                states_length=random.random() < 0.7,
                pause=random.choice([None] * 8 + [0.02]),
                trickles=random.choice([None] * 8 + ["headers", "length"]),
            )
            if random.random() < 0.4:
                part = target.with_name("file.bin.part")
                part.write_bytes(mutated(BODY[: random.randrange(1, len(BODY))], random)[1])
            site.requests.clear()
            described = {**vars(page), "body": body == BODY, "cuts": page.cuts[:5]}
            with tally.case(f"{described}"):
                try:
                    download_file(
                        f"{site.url}/f", target, size=len(BODY), checksum=sha256(BODY), on_progress=lambda *_: None
                    )
                except DownloadError as error:
                    assert site.url in str(error)
                    assert not target.exists()
                else:
                    assert target.read_bytes() == BODY
                requests = len(site.requests) if page.location != "/f" else 0
                assert requests <= 4 * MAX_FAILURES, f"{requests} requests"
