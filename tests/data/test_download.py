from __future__ import annotations

import hashlib
import json
import resource
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from local_server import Page, Site, serve
from singleshot.data.published.download import ATTEMPTS, DownloadError, download

BODY = bytes(range(256)) * 4096  # a mebibyte
NEW = BODY[::-1]


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serve() as site:
        yield site


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "file.bin"


def no_pause(seconds: float) -> None:
    assert 0 < seconds < 20


def leave_part(target: Path, content: bytes, url: str = "", validator: str | None = None) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.with_name("file.bin.part").write_bytes(content)
    if validator:
        about = {"url": url, "validator": validator}
        target.with_name("file.bin.part.json").write_text(json.dumps(about))


def litter(target: Path) -> list[str]:
    return sorted(path.name for path in target.parent.iterdir() if path.name not in (target.name, ".lock"))


def get(site: Site, target: Path, body: bytes = BODY, path: str = "/f") -> list[tuple[int, int | None]]:
    steps: list[tuple[int, int | None]] = []
    download(
        f"{site.url}{path}",
        target,
        size=len(body),
        checksum=sha256(body),
        on_progress=lambda done, total: steps.append((done, total)),
        pause=no_pause,
    )
    assert target.read_bytes() == body
    assert litter(target) == []
    return steps


def test_a_whole_file_comes_with_progress_and_is_not_asked_for_again(site: Site, target: Path) -> None:
    site.pages["/f"] = Page(BODY)
    steps = get(site, target)
    assert steps[0] == (0, len(BODY))
    assert steps[-1] == (len(BODY), len(BODY))
    assert steps == sorted(steps)
    assert get(site, target) == []
    assert site.requests == [("/f", None, None)]


def test_a_target_that_is_not_what_was_published_is_replaced(site: Site, target: Path) -> None:
    site.pages["/f"] = Page(BODY)
    target.parent.mkdir()
    target.write_bytes(NEW)
    get(site, target)


@pytest.mark.parametrize(
    ("page", "part", "validator", "asked"),
    [
        (Page(BODY), BODY[:1000], None, [("bytes=1000-", None)]),
        (Page(BODY), BODY[:1000], '"1"', [("bytes=1000-", '"1"')]),
        (Page(BODY, ranges=False), BODY[:1000], '"1"', [("bytes=1000-", '"1"')]),
        (Page(BODY, etag='"2"'), NEW[:1000], '"1"', [("bytes=1000-", '"1"')]),  # changed, and the server says so
        (Page(BODY, etag=None), NEW[:1000], None, [("bytes=1000-", None), (None, None)]),  # changed, and it does not
        (Page(BODY), BODY, None, []),  # complete, not yet put in place
        (Page(BODY), NEW, None, [(None, None)]),
        (Page(BODY), BODY + b"more", None, [(None, None)]),
        (Page(BODY), b"", None, [(None, None)]),
    ],
    ids=["no name", "same", "no ranges", "changed", "changed unnoticed", "complete", "wrong", "too long", "empty"],
)
def test_a_part_is_gone_on_with_where_it_fits(
    page: Page, part: bytes, validator: str | None, asked: list[tuple[str | None, str | None]], site: Site, target: Path
) -> None:
    site.pages["/f"] = page
    leave_part(target, part, f"{site.url}/f", validator)
    get(site, target)
    assert [request[1:] for request in site.requests] == asked


def test_a_part_of_an_unknown_version_is_of_no_use_without_a_checksum(site: Site, target: Path) -> None:
    site.pages["/f"] = Page(BODY)
    leave_part(target, NEW[:1000])
    download(f"{site.url}/f", target, pause=no_pause)
    assert target.read_bytes() == BODY
    assert site.requests == [("/f", None, None)]


@pytest.mark.parametrize(("part", "requests"), [(BODY, 1), (BODY + b"more", 2)])
def test_a_server_that_has_no_more_is_believed_if_the_length_fits(
    part: bytes, requests: int, site: Site, target: Path
) -> None:
    site.pages["/f"] = Page(BODY)
    leave_part(target, part, f"{site.url}/f", '"1"')
    download(f"{site.url}/f", target, checksum=sha256(BODY), pause=no_pause)  # the size is not known: 416
    assert target.read_bytes() == BODY
    assert len(site.requests) == requests


@pytest.mark.parametrize("states_length", [True, False])
def test_a_connection_cut_in_the_middle_is_resumed(states_length: bool, site: Site, target: Path) -> None:
    site.pages["/f"] = Page(BODY, cuts=[300_000, 0, 100], states_length=states_length)
    get(site, target)
    assert [wanted for _, wanted, _ in site.requests] == [None, "bytes=300000-", "bytes=300000-", "bytes=300100-"]


def test_a_server_that_fails_is_asked_again_then_given_up_and_the_part_is_kept(site: Site, target: Path) -> None:
    site.pages["/f"] = Page(BODY, cuts=[5_000] + [0] * 20)
    with pytest.raises(
        DownloadError, match=rf"{site.url}/f: .*5,000 of 1,048,576.* {ATTEMPTS} times.*5,000 bytes are kept"
    ):
        get(site, target)
    assert not target.exists()
    assert target.with_name("file.bin.part").read_bytes() == BODY[:5_000]
    site.pages["/f"].cuts.clear()
    get(site, target)
    assert site.requests[-1] == ("/f", "bytes=5000-", '"1"')


@pytest.mark.parametrize(
    ("page", "message", "requests"),
    [
        (Page(status=404), r"answers 404", 1),
        (Page(status=503), r"answers 503.* 4 times", ATTEMPTS),
        (Page(location="file:///etc/passwd"), r"answers 302 .*file:///etc/passwd.*not allowed", 1),
        (Page(location="ftp://127.0.0.1/f"), r"unknown url type: ftp", 1),
        (Page(location="/f"), r"answers 302 .*redirect", None),
        (Page(NEW), r"not what was published \(checksum sha256:\w{64}, expected sha256:\w{64}\); it was removed", 1),
        (Page(BODY[:-1]), r"another file than was published \(1,048,575 bytes, expected 1,048,576\)", 1),
        (Page(BODY + b"!"), r"another file than was published \(1,048,577 bytes, expected 1,048,576\)", 1),
        (Page(BODY * 3, states_length=False), r"sends more than the 1,048,576 bytes it promised", 1),
    ],
)
def test_what_cannot_be_had_is_told_with_the_address(
    page: Page, message: str, requests: int | None, site: Site, target: Path
) -> None:
    site.pages["/f"] = page
    with pytest.raises(DownloadError, match=f"^{site.url}/f: .*{message}"):
        get(site, target)
    assert not target.exists()
    assert requests in (None, len(site.requests))
    assert all(path.stat().st_size <= len(BODY) for path in target.parent.iterdir())


def test_a_redirection_is_followed_with_its_range(site: Site, target: Path) -> None:
    site.pages |= {"/f": Page(location="/g"), "/g": Page(BODY)}
    leave_part(target, BODY[:10])
    get(site, target)
    assert site.requests == [("/f", "bytes=10-", None), ("/g", "bytes=10-", None)]


def test_no_server_at_all(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serve() as gone:
        pass
    with pytest.raises(DownloadError, match=r"the connection failed \(.*refused.*4 times in a row$"):
        download(f"{gone.url}/f", target, pause=no_pause)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.org/f", "/etc/passwd", "data:,x"])
def test_other_schemes_are_refused_before_anything_happens(url: str, target: Path) -> None:
    with pytest.raises(ValueError, match="url must begin with http"):
        download(url, target)
    assert not target.parent.exists()


def test_a_disk_without_room_is_told_before_the_download(
    site: Site, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.pages["/f"] = Page(BODY)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(OSError, match=r"room for 1,000 bytes, 1,048,576 are needed.*file.bin.part"):
        get(site, target)


def test_a_write_that_fails_keeps_what_came_and_names_the_file(site: Site, target: Path) -> None:
    site.pages["/f"] = Page(BODY)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, hard))  # as if the disk were full after so many bytes
    try:
        with pytest.raises(OSError, match=r"what has arrived is kept.*file.bin.part") as raised:
            get(site, target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not isinstance(raised.value, DownloadError)
    assert target.with_name("file.bin.part").stat().st_size > 0
    get(site, target)


def test_an_unusable_folder_is_named(site: Site, tmp_path: Path) -> None:
    (tmp_path / "occupied").write_text("a file")
    with pytest.raises(ValueError, match="occupied cannot be written to"):
        download(f"{site.url}/f", tmp_path / "occupied" / "file.bin")


def test_ctrl_c_leaves_the_part_for_the_next_time(site: Site, target: Path) -> None:
    site.pages["/f"] = Page(BODY)

    def interrupt(done: int, total: int | None) -> None:
        if done > 500_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(f"{site.url}/f", target, checksum=sha256(BODY), on_progress=interrupt)
    assert target.with_name("file.bin.part").stat().st_size > 500_000
    assert get(site, target)[0][0] > 500_000


def test_processes_that_want_the_same_file_download_it_once(site: Site, target: Path) -> None:
    site.pages["/f"] = Page(BODY)
    program = (
        "import sys, pathlib; from singleshot.data.published.download import download\n"
        "download(sys.argv[1], pathlib.Path(sys.argv[2]), checksum=sys.argv[3])"
    )
    command = [sys.executable, "-c", program, f"{site.url}/f", str(target), sha256(BODY)]
    ends: list[int] = []
    threads = [
        threading.Thread(target=lambda: ends.append(subprocess.run(command, check=False).returncode)) for _ in "123"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends == [0, 0, 0]
    assert target.read_bytes() == BODY
    assert len(site.requests) == 1
