from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from local_server import Page, Site, serve
from singleshot.data.published.download import DownloadError
from singleshot.data.published.fetch import fetch_dataset
from singleshot.data.published.publishers import PUBLICATIONS
from singleshot.data.registry import load_dataset
from small_publications import Files, publish, sha256, tar_gz

SIZES = {"cifar100": (200, 100), "mnist": (30, 20), "tiny_imagenet": (12, 6)}


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serve() as site:
        yield site


def serve_set(site: Site, monkeypatch: pytest.MonkeyPatch, name: str, mirrors: tuple[str, ...] = ("",)) -> Files:
    served = publish(monkeypatch, name, [f"{site.url}{mirror}" for mirror in mirrors])
    site.pages |= {f"{mirrors[-1]}/{file}": Page(content) for file, content in served.items()}
    return served


def fetch(name: str, root: Path) -> str:
    """What was said on the way."""
    said: list[str] = []
    result = fetch_dataset(name, root, say=said.append, on_download=lambda file: lambda done, total: None)
    assert result.is_complete
    return "\n".join(said)


def loads(name: str, root: Path) -> bool:
    dataset = load_dataset(name, data_root=root)
    return (len(dataset.train), len(dataset.test)) == SIZES[name]


@pytest.mark.parametrize("name", SIZES)
def test_what_is_fetched_can_be_loaded_and_is_not_fetched_again(
    name: str, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve_set(site, monkeypatch, name)
    said = fetch(name, tmp_path)
    assert PUBLICATIONS[name].terms in said
    assert loads(name, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [".fetch", PUBLICATIONS[name].folder, *_locks(name)]
    )
    assert len(site.requests) == len(served)
    assert "already, complete and as published" in fetch(name, tmp_path)
    assert len(site.requests) == len(served)


def _locks(name: str) -> list[str]:
    return [".lock"] if PUBLICATIONS[name].is_archived else []


@pytest.mark.parametrize("name", SIZES)
def test_a_damaged_copy_is_kept_aside_and_fetched_anew(
    name: str, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve_set(site, monkeypatch, name)
    fetch(name, tmp_path)
    folder = tmp_path / PUBLICATIONS[name].folder
    largest = max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    content = largest.read_bytes()
    largest.write_bytes(content[: len(content) // 2])
    asked = len(site.requests)
    assert "kept as" in fetch(name, tmp_path)
    assert loads(name, tmp_path)
    assert largest.read_bytes() == content
    (aside,) = tmp_path.rglob("*.old-1")
    damaged = aside / largest.relative_to(folder) if aside.is_dir() else aside
    assert damaged.read_bytes() == content[: len(content) // 2]
    assert len(site.requests) == asked + 1
    assert len(served) >= 1


def test_a_plain_file_that_is_damaged_does_not_hide_the_fetched_one(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_set(site, monkeypatch, "mnist")
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "train-labels-idx1-ubyte").write_bytes(b"damaged")
    fetch("mnist", tmp_path)
    assert loads("mnist", tmp_path)


def test_the_next_address_is_tried_and_all_are_named_when_none_works(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_set(site, monkeypatch, "cifar100", mirrors=("/gone", "/there"))
    fetch("cifar100", tmp_path)
    assert [path for path, *_ in site.requests] == [f"/{place}/cifar-100-binary.tar.gz" for place in ("gone", "there")]
    site.pages.clear()
    archive = tmp_path / "other" / "cifar-100-binary.tar.gz"
    with pytest.raises(DownloadError) as raised:
        fetch("cifar100", tmp_path / "other")
    told = str(raised.value)
    assert f"{site.url}/gone/cifar-100-binary.tar.gz: the server answers 404" in told
    assert f"{site.url}/there/cifar-100-binary.tar.gz: the server answers 404" in told
    assert f"put it at {archive}, and run singleshot data fetch cifar100 again" in told


def test_a_file_that_was_put_there_by_hand_is_used_and_kept(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name, content), *_ = serve_set(site, monkeypatch, "cifar100").items()
    (tmp_path / name).write_bytes(content)
    fetch("cifar100", tmp_path)
    assert loads("cifar100", tmp_path)
    assert (tmp_path / name).read_bytes() == content
    assert site.requests == []


def test_what_was_there_stays_when_the_archive_is_refused(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_set(site, monkeypatch, "cifar100")
    evil = tar_gz("cifar-100-binary", {"../../evil": b"x"})
    published = PUBLICATIONS["cifar100"]
    (wanted,) = published.downloads
    downloads = (replace(wanted, size=len(evil), checksum=sha256(evil)),)
    monkeypatch.setitem(PUBLICATIONS, "cifar100", replace(published, downloads=downloads))
    site.pages["/cifar-100-binary.tar.gz"] = Page(evil)
    (tmp_path / "root" / "cifar-100-binary").mkdir(parents=True)
    (tmp_path / "root" / "cifar-100-binary" / "train.bin").write_bytes(b"half")
    with pytest.raises(ValueError, match=r"cifar-100-binary\.tar\.gz: refused to unpack its member .*evil"):
        fetch("cifar100", tmp_path / "root")
    assert (tmp_path / "root" / "cifar-100-binary" / "train.bin").read_bytes() == b"half"
    assert not list(tmp_path.rglob("evil"))


def test_litter_of_a_killed_process_is_swept(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve_set(site, monkeypatch, "cifar100")
    litter = tmp_path / ".cifar-100-binary.tar.gz.abc"
    litter.mkdir()
    fetch("cifar100", tmp_path)
    assert not litter.exists()


def test_two_at_once_download_it_once(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve_set(site, monkeypatch, "cifar100")
    said: list[str] = []
    threads = [threading.Thread(target=lambda: said.append(fetch("cifar100", tmp_path))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said) == 3
    assert sum("already" in words for words in said) == 2
    assert len(site.requests) == 1


def test_a_data_root_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "occupied").write_text("a file")
    with pytest.raises(
        ValueError, match=r"data root .*occupied cannot be written to.*--data-root or \$SINGLESHOT_DATA"
    ):
        fetch("cifar100", tmp_path / "occupied")
