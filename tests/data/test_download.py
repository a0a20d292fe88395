from __future__ import annotations

import re
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_server import Page, Site, serve
from singleshot.data.fetching.download import MAX_FAILURES, PROGRESS, DownloadError, download_file
from small_publications import sha256

BODY = bytes(range(256)) * 4096  # a mebibyte
OTHER = BODY[::-1]


def no_pause(seconds: float) -> None:
    assert 0 < seconds < 20


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(time, "sleep", no_pause)
    with serve() as site:
        yield site


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "file.bin"


def part_of(target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    return target.with_name("file.bin.part")


def get(site: Site, target: Path, body: bytes = BODY) -> list[tuple[int, int | None]]:
    """Download a file and return the reported progress."""
    steps: list[tuple[int, int | None]] = []
    download_file(
        f"{site.url}/f",
        target,
        size=len(body),
        checksum=sha256(body),
        on_progress=lambda done, total: steps.append((done, total)),
    )
    assert target.read_bytes() == body
    assert [path.name for path in target.parent.iterdir()] == ["file.bin"]
    return steps


def test_download_reports_progress(site: Site, target: Path) -> None:
    site.pages["/f"] = Page(BODY)
    steps = get(site, target)
    assert steps[0] == (0, len(BODY))
    assert steps[-1] == (len(BODY), len(BODY))
    assert steps == sorted(steps)
    assert site.requests == [("/f", None)]


def test_partial_file_is_resumed_if_possible(site: Site, target: Path) -> None:
    cases: list[tuple[str, Page, bytes, list[str | None]]] = [
        ("valid", Page(BODY), BODY[:1000], ["bytes=1000-"]),
        ("no ranges", Page(BODY, ranges=False), BODY[:1000], ["bytes=1000-"]),
        ("other content", Page(BODY), OTHER[:1000], ["bytes=1000-", None]),
        ("complete", Page(BODY), BODY, []),
        ("complete, other content", Page(BODY), OTHER, [None]),
        ("too long", Page(BODY), BODY + b"more", [None]),
        ("empty", Page(BODY), b"", [None]),
        ("invalid Content-Range", Page(BODY, content_range="bytes nonsense"), BODY[:1000], ["bytes=1000-", None]),
        ("other Content-Range", Page(BODY, content_range="bytes 7-9/1048576"), BODY[:1000], ["bytes=1000-", None]),
    ]
    for name, page, part, ranges in cases:
        site.pages["/f"] = page
        site.requests.clear()
        part_of(target).write_bytes(part)
        get(site, target)
        assert [wanted for _, wanted in site.requests] == ranges, name
        target.unlink()


@pytest.mark.parametrize("states_length", [True, False])
def test_interrupted_connection_is_resumed(states_length: bool, site: Site, target: Path) -> None:
    site.pages["/f"] = Page(BODY, cuts=[300_000, 0, 100], states_length=states_length)
    get(site, target)
    assert [wanted for _, wanted in site.requests] == [None, "bytes=300000-", "bytes=300000-", "bytes=300100-"]


def test_partial_file_is_kept_after_the_last_attempt(site: Site, target: Path) -> None:
    site.pages["/f"] = Page(BODY, cuts=[5_000] + [0] * 20)
    with pytest.raises(
        DownloadError,
        match=rf"{site.url}/f: .*5,000 of 1,048,576.* after {MAX_FAILURES} attempts; 5,000 bytes are kept",
    ):
        get(site, target)
    assert len(site.requests) == MAX_FAILURES
    assert not target.exists()
    assert part_of(target).read_bytes() == BODY[:5_000]
    site.pages["/f"].cuts.clear()
    get(site, target)
    assert site.requests[-1] == ("/f", "bytes=5000-")


def test_attempts_are_bounded_if_the_server_breaks_off_and_cannot_resume(site: Site, target: Path) -> None:
    body = BODY * 3
    site.pages["/f"] = Page(body, cuts=[PROGRESS + 1, 0] * 50, content_range="nonsense")
    with pytest.raises(DownloadError, match=f"after {MAX_FAILURES} attempts"):
        get(site, target, body)
    assert len(site.requests) <= 2 * MAX_FAILURES
    # With a valid Content-Range, progress resets the count of failures.
    site.pages["/f"] = Page(body, cuts=[0, 0, 0, PROGRESS, 0, 0, PROGRESS, 0, 0])
    get(site, target, body)


def test_shorter_file_on_the_server_is_reported(site: Site, target: Path) -> None:
    site.pages["/f"] = Page(BODY[:500])
    part_of(target).write_bytes(BODY[:1000])  # the server responds with 416
    with pytest.raises(DownloadError, match=r"different file \(500 bytes, expected 1,048,576\)"):
        get(site, target)
    assert [wanted for _, wanted in site.requests] == ["bytes=1000-", None]


def test_failures_are_reported_with_the_url(site: Site, target: Path) -> None:
    cases = [
        (Page(status=404), r"responded with 404", 1),
        (Page(status=503), r"responded with 503.* 4 attempts", MAX_FAILURES),
        (Page(location="file:///etc/passwd"), r"responded with 302 .*file:///etc/passwd.*not allowed", 1),
        (Page(location="/f"), r"responded with 302 .*redirect", None),
        (Page(OTHER), r"differs from the published one \(checksum sha256:\w{64}, expected sha256:\w{64}\)", 1),
        (Page(BODY[:-1]), r"different file \(1,048,575 bytes, expected 1,048,576\)", 1),
        (Page(BODY + b"!"), r"different file \(1,048,577 bytes, expected 1,048,576\)", 1),
        (Page(BODY * 3, states_length=False), r"sent more than the expected 1,048,576 bytes", 1),
    ]
    for page, message, requests in cases:
        site.pages["/f"] = page
        site.requests.clear()
        with pytest.raises(DownloadError, match=f"^{site.url}/f: .*{message}"):
            get(site, target)
        assert not target.exists()
        assert requests in (None, len(site.requests)), message
        assert all(path.stat().st_size <= len(BODY) for path in target.parent.iterdir())
        part_of(target).unlink(missing_ok=True)


def test_redirect_is_followed_with_the_range(site: Site, target: Path) -> None:
    site.pages |= {"/f": Page(location="/g"), "/g": Page(BODY)}
    part_of(target).write_bytes(BODY[:10])
    get(site, target)
    assert site.requests == [("/f", "bytes=10-"), ("/g", "bytes=10-")]


def test_no_server(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(time, "sleep", no_pause)
    with serve() as stopped:
        pass
    with pytest.raises(DownloadError, match=r"the connection failed \(.*refused.*4 attempts$"):
        get(stopped, target)


def test_full_disk(site: Site, target: Path) -> None:
    site.pages["/f"] = Page(BODY)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, hard))  # writes fail after this many bytes
    try:
        with pytest.raises(OSError, match=r"received so far are kept.*file.bin.part") as raised:
            get(site, target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not isinstance(raised.value, DownloadError)
    assert part_of(target).stat().st_size > 0
    get(site, target)


def test_keyboard_interrupt_keeps_the_partial_file(site: Site, target: Path) -> None:
    site.pages["/f"] = Page(BODY)

    def interrupt(done: int, total: int | None) -> None:
        if done > 500_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download_file(f"{site.url}/f", target, size=len(BODY), checksum=sha256(BODY), on_progress=interrupt)
    assert part_of(target).stat().st_size > 500_000
    assert get(site, target)[0][0] > 500_000


def test_a_server_that_trickles_is_given_up(site: Site, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte arrives in time, but the file would take days."""
    monkeypatch.setattr("singleshot.data.fetching.download.WINDOW", 0.5)
    site.pages["/f"] = Page(BODY, pause=0.02)
    with pytest.raises(
        DownloadError, match=rf"the server sent \d+ bytes in 0\.5 seconds; gave up after {MAX_FAILURES}"
    ):
        get(site, target)
    assert len(site.requests) == MAX_FAILURES
    site.pages["/f"].pause = None
    monkeypatch.setattr("singleshot.data.fetching.download.WINDOW", 60.0)
    get(site, target)


@pytest.mark.parametrize(
    ("trickles", "message"),
    [("headers", r"no complete headers in 0\.5 seconds"), ("length", r"the server sent 0 bytes in 0\.5 seconds")],
)
def test_a_server_that_trickles_around_the_body_is_given_up(
    trickles: str, message: str, site: Site, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte arrives in time, but none of them belongs to the file."""
    monkeypatch.setattr("singleshot.data.fetching.download.WINDOW", 0.5)
    site.pages["/f"] = Page(BODY, trickles=trickles)
    failures: list[DownloadError] = []

    def download() -> None:
        try:
            get(site, target)
        except DownloadError as error:
            failures.append(error)

    thread = threading.Thread(target=download, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "still waiting"
    assert re.search(rf"{message}.*gave up after {MAX_FAILURES}", str(failures[0]))
    assert len(site.requests) == MAX_FAILURES
    site.pages["/f"].trickles = None
    monkeypatch.setattr("singleshot.data.fetching.download.WINDOW", 60.0)
    get(site, target)
