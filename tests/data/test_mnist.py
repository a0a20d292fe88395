"""MNIST and Fashion-MNIST in the idx format, plain and gzipped."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from singleshot.data.cache import load_source
from singleshot.data.formats.mnist import mnist_source, open_idx

COUNTS = {"train": 12, "t10k": 5}


def idx(array: np.ndarray[Any, Any]) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def content() -> dict[str, np.ndarray[Any, Any]]:
    generator = np.random.default_rng(0)
    arrays = {}
    for part, count in COUNTS.items():
        arrays[f"{part}-images-idx3-ubyte"] = generator.integers(0, 256, (count, 28, 28), np.uint8)
        arrays[f"{part}-labels-idx1-ubyte"] = generator.integers(0, 10, count, np.uint8)
    return arrays


def write(folder: Path, gzipped: Callable[[str], bool] = lambda name: False) -> None:
    folder.mkdir(parents=True)
    for name, array in content().items():
        if gzipped(name):
            (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
        else:
            (folder / name).write_bytes(idx(array))


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("mnist", "mnist"),
        ("mnist", "mnist/raw"),
        ("fashion_mnist", "fashion_mnist"),
        ("fashion_mnist", "fashion-mnist/raw"),
    ],
)
@pytest.mark.parametrize("gzipped", [lambda name: False, lambda name: True, lambda name: "labels" in name])
def test_every_place_plain_and_gzipped(tmp_path: Path, name: str, folder: str, gzipped: Callable[[str], bool]) -> None:
    write(tmp_path / folder, gzipped)
    dataset = load_source(mnist_source(name, tmp_path), 28)
    arrays = content()
    for part, prefix in ((dataset.train, "train"), (dataset.test, "t10k")):
        assert torch.equal(part.images, torch.from_numpy(arrays[f"{prefix}-images-idx3-ubyte"][:, None]))
        assert part.labels.tolist() == arrays[f"{prefix}-labels-idx1-ubyte"].tolist()
    assert dataset.channels == 1
    assert dataset.class_names[9] == {"mnist": "9", "fashion_mnist": "Ankle boot"}[name]
    assert load_source(mnist_source(name, tmp_path), 32).test.images.shape == (5, 1, 32, 32)


def test_where_debian_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "usr" / "share"
    write(installed, lambda name: True)
    monkeypatch.setattr("singleshot.data.locations.INSTALLED", {"fashion_mnist": (installed,)})
    assert mnist_source("fashion_mnist", tmp_path / "nothing").root == installed
    with pytest.raises(ValueError, match="singleshot data fetch mnist"):
        mnist_source("mnist", tmp_path / "nothing")


LABELS, IMAGES = "train-labels-idx1-ubyte", "train-images-idx3-ubyte"
LABEL_BYTES, IMAGE_BYTES = idx(content()[LABELS]), idx(content()[IMAGES])


@pytest.mark.parametrize(
    ("name", "damaged", "message"),
    [
        (LABELS, b"", "starts with nothing, expected 00 00 08 01"),
        (LABELS, IMAGE_BYTES, "starts with 00 00 08 03, expected 00 00 08 01"),
        (IMAGES, b"\x00\x00\x0d\x03" + IMAGE_BYTES[4:], "starts with 00 00 0d 03"),
        (IMAGES, IMAGE_BYTES[:10], "ends within its header"),
        (IMAGES, IMAGE_BYTES[:-1], "is truncated: its header promises 9,408 bytes after it, and 1 of them"),
        (IMAGES, IMAGE_BYTES + b"\x00", "is longer than the 9,408 bytes"),
        (LABELS, LABEL_BYTES[:-3], "is truncated"),
        (LABELS, LABEL_BYTES + b"\x01", "is longer than the 12 bytes"),
        (LABELS, LABEL_BYTES[:-1] + b"\x0a", "label 11 is 10, expected 0 to 9"),
        (LABELS, idx(np.zeros(13, np.uint8)), "promises 12 images, but .* holds 13 labels"),
        (LABELS, idx(np.zeros(0, np.uint8)), "promises 0 bytes, expected N with N from 1"),
        (LABELS, b"\x00\x00\x08\x01\xff\xff\xff\xff", "promises 4294967295 bytes"),
        (IMAGES, idx(np.zeros((12, 28, 27), np.uint8)), "promises 12 × 28 × 27 bytes, expected N × 28 × 28"),
        (IMAGES, b"\x00\x00\x08\x03" + b"\xff" * 12, "promises 4294967295 × "),
        (f"{IMAGES}.gz", IMAGE_BYTES, "is a damaged gzip file"),
        (f"{IMAGES}.gz", gzip.compress(IMAGE_BYTES)[:-9], "is a damaged gzip file|is truncated"),
        (f"{IMAGES}.gz", gzip.compress(IMAGE_BYTES)[:-4] + b"abcd", "is a damaged gzip file"),
        (f"{IMAGES}.gz", gzip.compress(IMAGE_BYTES[:-5]), "is truncated"),
        (f"{IMAGES}.gz", b"\x1f\x8b\x08" + b"\x00" * 7 + b"\xff" * 20, "is a damaged gzip file"),
    ],
)
def test_damage_is_named(tmp_path: Path, name: str, damaged: bytes, message: str, decoded: Path) -> None:
    folder = tmp_path / "mnist"
    write(folder)
    (folder / name.removesuffix(".gz")).unlink()
    (folder / name).write_bytes(damaged)
    with pytest.raises(ValueError, match=message) as caught:
        load_source(mnist_source("mnist", tmp_path), 28)
    assert str(folder / name) in str(caught.value)
    assert not list(decoded.glob("*/*/*"))


def test_of_a_gzip_bomb_no_more_is_unpacked_than_its_header_promises(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(LABEL_BYTES)
        for _ in range(64):
            file.write(bytes(2**20))
    with open_idx(path, ()) as reader:
        reader.take(12)
        with pytest.raises(ValueError, match=r"bomb\.gz is longer than the 12 bytes"):
            reader.check_end()
        assert reader.file.tell() == len(LABEL_BYTES) + 1


def gzip_content(content: bytes) -> bytes:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        return b""


TAILS = st.binary(max_size=64) | st.binary(max_size=9).map(lambda content: len(content).to_bytes(4, "big") + content)


@settings(deadline=None)
@given(TAILS | TAILS.map(lambda tail: gzip.compress(b"\x00\x00\x08\x01" + tail)), st.booleans())
def test_any_bytes_are_items_or_an_error_that_names_the_file(
    tmp_path_factory: pytest.TempPathFactory, tail: bytes, gzipped: bool
) -> None:
    path = tmp_path_factory.mktemp("idx") / ("file.gz" if gzipped else "file")
    path.write_bytes(tail if gzipped else b"\x00\x00\x08\x01" + tail)
    expected = gzip_content(tail) if gzipped else b"\x00\x00\x08\x01" + tail
    length = int.from_bytes(expected[4:8], "big")
    fine = expected[:4] == b"\x00\x00\x08\x01" and len(expected) == 8 + length > 8
    with nullcontext() if fine else pytest.raises(ValueError, match=path.name), open_idx(path, ()) as reader:
        assert reader.take(reader.shape[0]).tobytes() == expected[8:]
        reader.check_end()
