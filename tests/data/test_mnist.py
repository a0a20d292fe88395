"""MNIST and Fashion-MNIST in the idx format, plain and gzipped."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from singleshot.data import load_dataset
from singleshot.data.formats.mnist import read_idx
from singleshot.data.registry import find_source

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


@pytest.mark.parametrize("folder", ["mnist", "mnist/raw", "fashion_mnist", "fashion-mnist/raw"])
def test_every_folder_plain_and_gzipped(tmp_path: Path, folder: str) -> None:
    name = "mnist" if folder.startswith("mnist") else "fashion_mnist"
    arrays = content()
    choices: list[Callable[[str], bool]] = [lambda name: False, lambda name: True, lambda name: "labels" in name]
    for number, gzipped in enumerate(choices):
        root = tmp_path / str(number)
        write(root / folder, gzipped)
        dataset = load_dataset(name, data_root=root, image_size=28)
        for split, prefix in ((dataset.train, "train"), (dataset.test, "t10k")):
            assert torch.equal(split.images, torch.from_numpy(arrays[f"{prefix}-images-idx3-ubyte"][:, None]))
            assert split.labels.tolist() == arrays[f"{prefix}-labels-idx1-ubyte"].tolist()
        assert dataset.channels == 1
        assert dataset.class_names[9] == {"mnist": "9", "fashion_mnist": "Ankle boot"}[name]
    assert load_dataset(name, data_root=root).test.images.shape == (5, 1, 32, 32)


def test_folder_of_a_system_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "usr" / "share"
    write(installed, lambda name: True)
    monkeypatch.setattr("singleshot.data.locations.INSTALLED", {"fashion_mnist": (installed,)})
    assert find_source("fashion_mnist", tmp_path / "nothing").root == installed
    with pytest.raises(ValueError, match="singleshot data fetch mnist"):
        find_source("mnist", tmp_path / "nothing")


LABELS, IMAGES = "train-labels-idx1-ubyte", "train-images-idx3-ubyte"
LABEL_BYTES, IMAGE_BYTES = idx(content()[LABELS]), idx(content()[IMAGES])


def test_damaged_files_are_reported(tmp_path: Path, decoded: Path) -> None:
    write(folder := tmp_path / "mnist")
    packed = gzip.compress(IMAGE_BYTES)
    for name, damaged, message in [
        (LABELS, b"", "starts with nothing, expected 00 00 08 01"),
        (LABELS, IMAGE_BYTES, "starts with 00 00 08 03 .*, expected 00 00 08 01 and a shape"),
        (IMAGES, b"\x00\x00\x0d\x03" + IMAGE_BYTES[4:], "starts with 00 00 0d 03"),
        (IMAGES, IMAGE_BYTES[:10], "starts with 00 00 08 03 00 00 00 0c 00 00, expected 00 00 08 03 and a shape"),
        (IMAGES, IMAGE_BYTES[:-1], "is shorter than the 9,408 bytes in its header"),
        (IMAGES, IMAGE_BYTES + b"\x00", "is longer than the 9,408 bytes"),
        (LABELS, LABEL_BYTES[:-3], "is shorter than the 12 bytes"),
        (LABELS, LABEL_BYTES + b"\x01", "is longer than the 12 bytes"),
        (LABELS, LABEL_BYTES[:-1] + b"\x0a", "label 11 is 10, expected 0 to 9"),
        (IMAGES, idx(np.zeros((13, 28, 28), np.uint8)), "has 13 images, but there are 12 labels"),
        (LABELS, idx(np.zeros(0, np.uint8)), "has shape 0, expected N with N from 1"),
        (LABELS, b"\x00\x00\x08\x01\xff\xff\xff\xff", "has shape 4294967295, "),
        (IMAGES, idx(np.zeros((12, 28, 27), np.uint8)), "has shape 12 × 28 × 27, expected N × 28 × 28"),
        (IMAGES, b"\x00\x00\x08\x03" + b"\xff" * 12, "has shape 4294967295 × "),
        (f"{IMAGES}.gz", IMAGE_BYTES, "is not a valid gzip file"),
        (f"{IMAGES}.gz", packed[:-9], "is not a valid gzip file|is shorter"),
        (f"{IMAGES}.gz", packed[:-4] + b"abcd", "is not a valid gzip file"),
        (f"{IMAGES}.gz", gzip.compress(IMAGE_BYTES[:-5]), "is shorter"),
        (f"{IMAGES}.gz", b"\x1f\x8b\x08" + b"\x00" * 7 + b"\xff" * 20, "is not a valid gzip file"),
    ]:
        plain = folder / name.removesuffix(".gz")
        content = plain.read_bytes()
        plain.unlink()
        (folder / name).write_bytes(damaged)
        with pytest.raises(ValueError, match=message) as caught:
            load_dataset("mnist", data_root=tmp_path)
        assert str(folder / name) in str(caught.value)
        assert not list(decoded.glob("*/*/*"))
        (folder / name).unlink()
        plain.write_bytes(content)


def test_gzip_bomb_is_not_decompressed(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(LABEL_BYTES)
        for _ in range(64):
            file.write(bytes(2**20))
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"bomb\.gz is longer than the 12 bytes"):
        read_idx(path, ())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20


def gzip_content(content: bytes) -> bytes:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        return b""


TAILS = st.binary(max_size=64) | st.binary(max_size=9).map(lambda content: len(content).to_bytes(4, "big") + content)


@settings(max_examples=60, deadline=None)
@given(TAILS | TAILS.map(lambda tail: gzip.compress(b"\x00\x00\x08\x01" + tail)), st.booleans())
def test_any_bytes_are_items_or_an_error(tmp_path_factory: pytest.TempPathFactory, tail: bytes, gzipped: bool) -> None:
    path = tmp_path_factory.mktemp("idx") / ("file.gz" if gzipped else "file")
    path.write_bytes(tail if gzipped else b"\x00\x00\x08\x01" + tail)
    expected = gzip_content(tail) if gzipped else b"\x00\x00\x08\x01" + tail
    length = int.from_bytes(expected[4:8], "big")
    valid = expected[:4] == b"\x00\x00\x08\x01" and len(expected) == 8 + length > 8
    with nullcontext() if valid else pytest.raises(ValueError, match=path.name):
        assert read_idx(path, ()).tobytes() == expected[8:]
