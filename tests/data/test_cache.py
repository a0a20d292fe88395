"""The cache of decoded images: complete, unchanged, and never partial."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from singleshot.common.npy import NpyWriter
from singleshot.data import cache, image_source as source_module, load_dataset
from singleshot.data.decoding import decode_image
from singleshot.data.image_source import ImageBatch, ImageSource
from singleshot.data.images import Dataset, Images

WORKER = Path(__file__).with_name("cache_worker.py")
IMAGES = 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "my images"
    for name, shade in (("dark", 40), ("light", 200)):
        (root / name).mkdir(parents=True)
        for number in range(IMAGES // 2):
            Image.new("RGB", (8, 8), (shade, shade, number)).save(root / name / f"{number}.png")
    return root


def load(folder: Path) -> Dataset:
    return load_dataset(str(folder), image_size=8)


def the_cache(decoded: Path) -> Path:
    (place,) = (path.parent for path in decoded.glob("*/*/meta.json"))
    return place


def same(first: Dataset, second: Dataset) -> bool:
    return (
        torch.equal(first.train.images, second.train.images)
        and torch.equal(first.test.images, second.test.images)
        and torch.equal(first.train.labels, second.train.labels)
        and torch.equal(first.test.labels, second.test.labels)
        and (first.mean, first.std, first.class_names) == (second.mean, second.std, second.class_names)
    )


def in_memory(dataset: Dataset) -> Dataset:
    """Copy the tensors, so that they do not depend on the files."""
    train, test = (Images(part.images.clone(), part.labels.clone()) for part in (dataset.train, dataset.test))
    return dataclasses.replace(dataset, train=train, test=test)


def test_second_load_decodes_nothing(folder: Path, decoded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load(folder)
    monkeypatch.setattr(cache, "_decode", None)
    second = load(folder)
    assert same(first, second)
    files = sorted(path.name for path in the_cache(decoded).iterdir())
    assert files == ["meta.json", "test_images.npy", "test_labels.npy", "train_images.npy", "train_labels.npy"]
    assert the_cache(decoded).parent.name == "my_images-8"
    meta = json.loads((the_cache(decoded) / "meta.json").read_text())
    assert (meta["root"], meta["unreadable"]) == (str(folder), 0)


def test_writing_to_tensors_does_not_change_the_files(folder: Path) -> None:
    dataset = load(folder)
    before = dataset.train.images.clone()
    dataset.train.images.zero_()
    assert torch.equal(load(folder).train.images, before)


def test_changed_files_are_decoded_again_and_the_old_entry_is_removed(folder: Path, decoded: Path) -> None:
    load(folder)
    changes: list[Callable[[], object]] = [
        lambda: Image.new("RGB", (8, 8), "red").save(folder / "dark" / "0.png"),
        lambda: Image.new("RGB", (8, 8), "red").save(folder / "dark" / "new.png"),
        (folder / "dark" / "1.png").unlink,
        lambda: (folder / "dark" / "0.png").rename(folder / "light" / "from dark.png"),
        lambda: os.utime(folder / "dark" / "2.png", (1, 1)),
    ]
    for change in changes:
        before = the_cache(decoded)
        change()
        load(folder)
        assert the_cache(decoded) != before  # and there is only one


def test_names_that_are_not_utf8(folder: Path) -> None:
    os.rename(os.fsencode(folder / "dark"), os.fsencode(folder) + b"/d\xffrk")  # noqa: PTH104
    assert load(folder).class_names == load(folder).class_names == ("d\udcffrk", "light")


def test_sizes_and_folders_of_the_same_name_are_separate(folder: Path, decoded: Path) -> None:
    load(folder)
    load_dataset(str(folder), image_size=4)
    twin = folder.parent / "elsewhere" / folder.name
    twin.parent.mkdir()
    folder.rename(twin)
    load(twin)
    assert len(list(decoded.glob("*/*/meta.json"))) == 3


def rewrite(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda place: (place / name).write_bytes(content)


def edit_meta(**change: Any) -> Callable[[Path], object]:
    def damage(place: Path) -> None:
        meta = json.loads((place / "meta.json").read_text())
        (place / "meta.json").write_text(json.dumps(meta | change))

    return damage


def save(name: str, array: Any) -> Callable[[Path], object]:
    return lambda place: np.save(place / name, array, allow_pickle=True)


def test_damaged_entry_is_rebuilt(folder: Path, decoded: Path) -> None:
    first = in_memory(load(folder))
    place = the_cache(decoded)
    damages: list[Callable[[Path], object]] = [
        rewrite("meta.json", b""),
        rewrite("meta.json", b"[1, 2]"),
        rewrite("meta.json", b'{"format": 1}'),
        rewrite("meta.json", b"\xff\xfe"),
        edit_meta(mean=[0.5]),
        edit_meta(mean=None),
        rewrite("train_images.npy", b""),
        rewrite("train_images.npy", b"no array"),
        lambda place: os.truncate(place / "train_images.npy", 1000),
        lambda place: (place / "test_labels.npy").unlink(),
        save("train_labels.npy", np.zeros(15, np.int64)),
        save("train_labels.npy", np.full(16, 2, np.int64)),
        save("train_labels.npy", np.full(16, -1, np.int64)),
        save("train_labels.npy", np.zeros(16, np.float64)),
        save("train_labels.npy", np.array([None] * 16)),
        save("test_images.npy", np.zeros((4, 3, 8, 8), np.int8)),
    ]
    for number, damage in enumerate(damages):
        damage(place)
        assert same(first, load(folder)), number
        assert the_cache(decoded) == place
        assert [path.name for path in place.parent.iterdir() if path.name.startswith(".building")] == []


def test_entry_of_version_0_1_is_read(folder: Path, decoded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 0.1 wrote more fields."""
    first = in_memory(load(folder))
    meta = {
        "format": 1,
        "name": "my images",
        "root": str(folder),
        "files": 20,
        "image_size": 8,
        "channels": 3,
        "class_names": ["dark", "light"],
        "train_images": 16,
        "test_images": 4,
        "mean": list(first.mean),
        "std": list(first.std),
        "unreadable": 0,
        "unreadable_examples": [],
    }
    (the_cache(decoded) / "meta.json").write_text(json.dumps(meta))
    monkeypatch.setattr(cache, "_decode", None)
    assert same(first, load(folder))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_concurrent_loads_decode_once(
    folder: Path, decoded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[Path] = []
    started = threading.Event()

    def slow(path: Path, size: int, channels: int) -> Any:
        calls.append(path)
        started.set()
        time.sleep(0.1)
        return decode_image(path, size, channels)

    monkeypatch.setattr(source_module, "decode_image", slow)
    sizes: list[int] = []
    threads = [threading.Thread(target=lambda: sizes.append(len(load(folder).train))) for _ in "12"]
    threads[0].start()
    assert started.wait(60)
    threads[1].start()  # waits for the lock, which is tried for a second before the message
    for thread in threads:
        thread.join()
    assert sizes == [16, 16]
    assert len(calls) == IMAGES
    assert len(list(decoded.glob("*/*/meta.json"))) == 1
    err = capsys.readouterr().err
    assert "decoding 20 images of my images" in err
    assert "waiting for another process that is decoding my images" in err


def test_killed_process_leaves_no_entry(folder: Path, tmp_path: Path, decoded: Path) -> None:
    log = tmp_path / "log"
    process = subprocess.Popen([sys.executable, str(WORKER), str(folder), str(log)])
    wait_until(lambda: log.exists() and len(log.read_text()) > 3)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (leftover,) = decoded.glob("*/.building-*")
    assert not list(decoded.glob("*/*/meta.json"))
    assert len(load(folder).train) == 16
    assert not leftover.exists()


def test_interrupted_decoding_cleans_up(folder: Path, decoded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cache, "write_text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load(folder)
    assert [path.name for path in decoded.glob("*/*")] == [".lock"]


def test_full_disk(folder: Path, decoded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(NpyWriter, "append", full)
    with pytest.raises(OSError, match=f"No space left.*free some space, or set .SINGLESHOT_CACHE.*{decoded}"):
        load(folder)
    assert [path.name for path in decoded.glob("*/*")] == [".lock"]


def test_cache_folder_that_cannot_be_written(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SINGLESHOT_CACHE", str(tmp_path / "file"))
    with pytest.raises(ValueError, match=r"file/my_images-8.* cannot be written to .*set .SINGLESHOT_CACHE"):
        load(folder)


def test_reading_needs_no_lock(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache without write permission can be used."""
    load(folder)
    monkeypatch.setattr(cache, "exclusive", None)
    assert len(load(folder).train) == 16


def test_decoding_memory_is_bounded(tmp_path: Path) -> None:
    """Decoding holds a few batches of the 50."""
    file = tmp_path / "source"
    file.touch()
    images = np.zeros((500, 3, 32, 32), np.uint8)

    def batches(size: int) -> Iterator[ImageBatch]:
        for _ in range(50):
            yield ImageBatch(images, np.zeros(500, np.int64))

    source = ImageSource(
        "zeros",
        tmp_path,
        (file,),
        ("zero",),
        3,
        batches,
        lambda size: iter([ImageBatch(images, np.zeros(500, np.int64))]),
    )
    tracemalloc.start()
    dataset = cache.load_source(source, 32)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(dataset.train) == 25_000
    assert peak < 8 * images.nbytes


def test_npy_writer(tmp_path: Path) -> None:
    path = tmp_path / "array.npy"
    with NpyWriter(path, np.dtype(np.uint8), (2,)) as writer:
        for count in (0, 3, 1):
            writer.append(np.full((count, 2), count, np.uint8))
        with pytest.raises(ValueError, match=r"items are int64 \(2,\), expected uint8 \(2,\)"):
            writer.append(np.zeros((1, 2), np.int64))
    assert np.load(path).tolist() == [[3, 3]] * 3 + [[1, 1]]
