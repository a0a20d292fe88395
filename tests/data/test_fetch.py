from __future__ import annotations

import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from local_server import Page, Site, serve
from singleshot.data.catalogue import PUBLICATIONS
from singleshot.data.fetching.download import DownloadError
from singleshot.data.fetching.fetch import fetch_dataset
from singleshot.data.registry import load_dataset
from small_publications import Files, publish, sha256, tar_gz

SIZES = {"cifar100": (200, 100), "mnist": (30, 20), "tiny_imagenet": (12, 6)}
Fetch = Callable[[str, Path], str]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serve() as site:
        yield site


@pytest.fixture
def fetch(capsys: pytest.CaptureFixture[str]) -> Fetch:
    """Fetch a dataset and return the status messages."""

    def fetch(name: str, root: Path) -> str:
        assert fetch_dataset(name, root).is_complete
        return capsys.readouterr().err

    return fetch


def serve_set(site: Site, monkeypatch: pytest.MonkeyPatch, name: str, mirrors: tuple[str, ...] = ("",)) -> Files:
    served = publish(monkeypatch, name, [f"{site.url}{mirror}" for mirror in mirrors])
    site.pages |= {f"{mirrors[-1]}/{file}": Page(content) for file, content in served.items()}
    return served


def loads(name: str, root: Path) -> bool:
    dataset = load_dataset(name, data_root=root)
    return (len(dataset.train), len(dataset.test)) == SIZES[name]


@pytest.mark.parametrize("name", SIZES)
def test_fetch_once_and_again_after_damage(
    name: str, fetch: Fetch, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve_set(site, monkeypatch, name)
    assert PUBLICATIONS[name].terms in fetch(name, tmp_path)
    assert loads(name, tmp_path)
    folder = tmp_path / PUBLICATIONS[name].folders[0]
    assert sorted(tmp_path.iterdir()) == [tmp_path / ".fetch", folder]
    assert "already in" in fetch(name, tmp_path)
    assert len(site.requests) == len(served)

    largest = max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    content = largest.read_bytes()
    largest.write_bytes(content[: len(content) // 2])
    assert "kept as" in fetch(name, tmp_path)
    assert loads(name, tmp_path)
    assert largest.read_bytes() == content
    (aside,) = tmp_path.rglob("*.old-1")
    damaged = aside / largest.relative_to(folder) if aside.is_dir() else aside
    assert damaged.read_bytes() == content[: len(content) // 2]
    assert len(site.requests) == len(served) + 1


def test_damaged_plain_file_is_replaced_by_the_gzipped_one(
    fetch: Fetch, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_set(site, monkeypatch, "mnist")
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "train-labels-idx1-ubyte").write_bytes(b"damaged")
    fetch("mnist", tmp_path)
    assert loads("mnist", tmp_path)


def test_all_urls_are_tried_and_reported(
    fetch: Fetch, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_set(site, monkeypatch, "cifar100", mirrors=("/gone", "/there"))
    fetch("cifar100", tmp_path)
    assert [path for path, _ in site.requests] == [f"/{place}/cifar-100-binary.tar.gz" for place in ("gone", "there")]
    site.pages.clear()
    archive = tmp_path / "other" / "cifar-100-binary.tar.gz"
    with pytest.raises(DownloadError) as raised:
        fetch("cifar100", tmp_path / "other")
    message = str(raised.value)
    assert f"{site.url}/gone/cifar-100-binary.tar.gz: the server responded with 404" in message
    assert f"{site.url}/there/cifar-100-binary.tar.gz: the server responded with 404" in message
    assert f"as {archive} and run singleshot data fetch cifar100 again" in message


def test_archive_downloaded_by_the_user_is_used_and_kept(
    fetch: Fetch, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name, content), *_ = serve_set(site, monkeypatch, "cifar100").items()
    (tmp_path / name).write_bytes(content)
    leftover = tmp_path / ".cifar-100-binary.tar.gz.abc"  # of a killed process
    leftover.mkdir()
    fetch("cifar100", tmp_path)
    assert loads("cifar100", tmp_path)
    assert (tmp_path / name).read_bytes() == content
    assert site.requests == []
    assert not leftover.exists()


def test_existing_folder_is_restored_if_the_archive_is_refused(
    fetch: Fetch, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_set(site, monkeypatch, "cifar100")
    evil = tar_gz("cifar-100-binary", {"../../evil": b"x"})
    published = PUBLICATIONS["cifar100"]
    (remote,) = published.downloads
    downloads = (replace(remote, size=len(evil), checksum=sha256(evil)),)
    monkeypatch.setitem(PUBLICATIONS, "cifar100", replace(published, downloads=downloads))
    site.pages["/cifar-100-binary.tar.gz"] = Page(evil)
    train = tmp_path / "root" / "cifar-100-binary" / "train.bin"
    train.parent.mkdir(parents=True)
    train.write_bytes(b"half")
    with pytest.raises(tarfile.OutsideDestinationError, match="evil"):
        fetch("cifar100", tmp_path / "root")
    assert train.read_bytes() == b"half"
    assert not list(tmp_path.rglob("evil"))


def test_concurrent_fetches_download_once(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve_set(site, monkeypatch, "cifar100")
    complete: list[bool] = []
    threads = [
        threading.Thread(target=lambda: complete.append(fetch_dataset("cifar100", tmp_path).is_complete)) for _ in "123"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert complete == [True] * 3
    assert len(site.requests) == 1


def test_data_root_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "occupied").write_text("a file")
    with pytest.raises(
        ValueError, match=r"data root .*occupied cannot be written to.*--data-root or \$SINGLESHOT_DATA"
    ):
        fetch_dataset("cifar100", tmp_path / "occupied")


@pytest.mark.parametrize("name", ["mnist", "tiny_imagenet"])
@pytest.mark.parametrize("by_variable", [True, False])
def test_a_mirror_replaces_the_publisher(
    name: str, by_variable: bool, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = publish(monkeypatch, name, ["http://127.0.0.1:9/unreachable"])
    site.pages = {f"/copies/{name}/{file}": Page(content) for file, content in served.items()}
    if by_variable:
        monkeypatch.setenv("SINGLESHOT_MIRROR", f"{site.url}/copies/")
    assert fetch_dataset(name, tmp_path, mirror=None if by_variable else f"{site.url}/copies").is_complete
    assert loads(name, tmp_path)
    assert sorted(path for path, _ in site.requests) == sorted(site.pages)


def test_a_mirror_with_other_content_is_refused(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = publish(monkeypatch, "mnist", ["http://127.0.0.1:9/unreachable"])
    site.pages = {f"/mnist/{file}": Page(content[::-1]) for file, content in served.items()}
    with pytest.raises(DownloadError, match="differs from the published one"):
        fetch_dataset("mnist", tmp_path, mirror=site.url)
    for wrong in ("file:///etc", "ftp://x", "/srv/copies"):
        with pytest.raises(ValueError, match="must start with http:// or https://"):
            fetch_dataset("mnist", tmp_path, mirror=wrong)
