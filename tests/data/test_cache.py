"""What is decoded once and found again: whole, unchanged, and never half."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from singleshot.data import cache, cache as decoded_form, load_dataset
from singleshot.data.cache import NpyWriter
from singleshot.data.images import Dataset, Images
from singleshot.data.source import Batch, Source

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
    """A copy that does not mind what happens to the files."""
    train, test = (Images(part.images.clone(), part.labels.clone()) for part in (dataset.train, dataset.test))
    return dataclasses.replace(dataset, train=train, test=test)


def test_the_second_time_nothing_is_decoded(folder: Path, decoded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load(folder)
    monkeypatch.setattr(cache, "write_decoded", None)
    second = load(folder)
    assert same(first, second)
    files = sorted(path.name for path in the_cache(decoded).iterdir())
    assert files == ["meta.json", "test_images.npy", "test_labels.npy", "train_images.npy", "train_labels.npy"]
    assert the_cache(decoded).parent.name == "my_images-8"
    meta = json.loads((the_cache(decoded) / "meta.json").read_text())
    assert (meta["train_images"], meta["test_images"], meta["unreadable"]) == (16, 4, 0)
    assert meta["files"] == IMAGES


def test_writing_to_the_tensors_leaves_the_files_alone(folder: Path) -> None:
    dataset = load(folder)
    before = dataset.train.images.clone()
    dataset.train.images.zero_()
    assert torch.equal(load(folder).train.images, before)


@pytest.mark.parametrize(
    "change",
    [
        lambda root: Image.new("RGB", (8, 8), "red").save(root / "dark" / "0.png"),
        lambda root: Image.new("RGB", (8, 8), "red").save(root / "dark" / "new.png"),
        lambda root: (root / "dark" / "0.png").unlink(),
        lambda root: (root / "dark" / "0.png").rename(root / "light" / "from dark.png"),
        lambda root: os.utime(root / "dark" / "0.png", (1, 1)),
    ],
)
def test_changed_sources_are_decoded_anew_and_the_old_is_removed(
    folder: Path, decoded: Path, change: Callable[[Path], object]
) -> None:
    load(folder)
    before = the_cache(decoded)
    change(folder)
    load(folder)
    assert the_cache(decoded) != before  # and there is only one


def test_sizes_and_folders_of_the_same_name_do_not_disturb_each_other(folder: Path, decoded: Path) -> None:
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


@pytest.mark.parametrize(
    "damage",
    [
        rewrite("meta.json", b""),
        rewrite("meta.json", b"[1, 2]"),
        rewrite("meta.json", b'{"format": 1}'),
        rewrite("meta.json", b"\xff\xfe"),
        edit_meta(format=0),
        edit_meta(train_images=15),
        edit_meta(image_size=9),
        edit_meta(mean=[0.5]),
        edit_meta(mean=None),
        edit_meta(class_names=["dark"]),
        edit_meta(surprise=1),
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
    ],
)
def test_a_damaged_cache_is_rebuilt(folder: Path, decoded: Path, damage: Callable[[Path], object]) -> None:
    first = in_memory(load(folder))
    place = the_cache(decoded)
    damage(place)
    assert same(first, load(folder))
    assert the_cache(decoded) == place
    assert [path.name for path in place.parent.iterdir() if path.name.startswith(".building")] == []


def start(folder: Path, log: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(WORKER), str(folder), str(log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def decoded_so_far(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_second_process_waits_instead_of_decoding_too(folder: Path, tmp_path: Path, decoded: Path) -> None:
    log = tmp_path / "log"
    first = start(folder, log)
    wait_until(lambda: decoded_so_far(log) > 0)
    second = start(folder, log)
    outputs = [process.communicate(timeout=120) for process in (first, second)]
    assert [output for output, _ in outputs] == ["ready\n16 4\n"] * 2
    assert decoded_so_far(log) == IMAGES
    assert len(list(decoded.glob("*/*/meta.json"))) == 1
    assert "decoding 20 images of my images" in outputs[0][1]


def test_a_killed_process_leaves_nothing_that_is_taken_for_a_cache(folder: Path, tmp_path: Path, decoded: Path) -> None:
    process = start(folder, tmp_path / "log")
    wait_until(lambda: decoded_so_far(tmp_path / "log") > 3)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (litter,) = decoded.glob("*/.building-*")
    assert not list(decoded.glob("*/*/meta.json"))
    assert len(load(folder).train) == 16
    assert not litter.exists()


def test_an_interrupted_decoding_cleans_up(folder: Path, decoded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(decoded_form, "write_text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load(folder)
    assert [path.name for path in decoded.glob("*/*")] == [".lock"]


def test_a_full_disk_says_where(folder: Path, decoded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(NpyWriter, "append", full)
    with pytest.raises(OSError, match=f"No space left.*make room, or set .SINGLESHOT_CACHE.*{decoded}"):
        load(folder)
    assert [path.name for path in decoded.glob("*/*")] == [".lock"]


def test_a_place_that_cannot_be_written(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SINGLESHOT_CACHE", str(tmp_path / "file"))
    with pytest.raises(ValueError, match=r"file/my_images-8.* cannot be written to .*set .SINGLESHOT_CACHE"):
        load(folder)


def test_a_cache_that_is_there_needs_no_lock(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Someone else's cache can be used without the right to write there."""
    load(folder)
    monkeypatch.setattr(cache, "exclusive", None)
    assert len(load(folder).train) == 16


def test_memory_stays_small(tmp_path: Path) -> None:
    """Decoding holds a few batches, not the set, whose images take 50 times one batch."""
    file = tmp_path / "source"
    file.touch()
    images = np.zeros((500, 3, 32, 32), np.uint8)

    def batches(size: int) -> Iterator[Batch]:
        for _ in range(50):
            yield Batch(images, np.zeros(500, np.int64))

    source = Source(
        "zeros", tmp_path, (file,), ("zero",), 3, batches, lambda size: iter([Batch(images, np.zeros(500, np.int64))])
    )
    tracemalloc.start()
    dataset = cache.load_source(source, 32)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(dataset.train) == 25_000
    assert peak < 8 * images.nbytes


def test_a_file_that_grows_is_what_numpy_reads(tmp_path: Path) -> None:
    path = tmp_path / "array.npy"
    with NpyWriter(path, np.dtype(np.uint8), (2,)) as writer:
        for count in (0, 3, 1):
            writer.append(np.full((count, 2), count, np.uint8))
        with pytest.raises(ValueError, match=r"items are int64 \(2,\), expected uint8 \(2,\)"):
            writer.append(np.zeros((1, 2), np.int64))
    assert np.load(path).tolist() == [[3, 3]] * 3 + [[1, 1]]
