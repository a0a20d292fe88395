"""CIFAR in the publisher's versions, with fewer images."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from singleshot.data import load_dataset
from singleshot.data.catalogue import PUBLICATIONS
from singleshot.data.registry import find_source

TRAIN, TEST = 7, 4  # images in each file
SETS = ["cifar10", "cifar100"]

Records = dict[str, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETS:
        images = TRAIN * len(train_stems(name))
        monkeypatch.setitem(PUBLICATIONS, name, replace(PUBLICATIONS[name], train_images=images, test_images=TEST))


def train_stems(name: str) -> list[str]:
    return [f"data_batch_{number}" for number in range(1, 6)] if name == "cifar10" else ["train"]


def records(name: str) -> Records:
    """Pixels and labels of each file."""
    generator = np.random.default_rng(0)
    test = "test_batch" if name == "cifar10" else "test"
    sizes = {**dict.fromkeys(train_stems(name), TRAIN), test: TEST}
    return {
        stem: (
            generator.integers(0, 256, (count, 3072), np.uint8),
            generator.integers(0, PUBLICATIONS[name].classes, count, np.uint8),
        )
        for stem, count in sizes.items()
    }


def class_names(name: str) -> list[str]:
    return [f"class {number}" for number in range(PUBLICATIONS[name].classes)]


def write_binary(root: Path, name: str) -> Path:
    folder = root / PUBLICATIONS[name].folders[0]
    folder.mkdir(parents=True)
    for stem, (pixels, labels) in records(name).items():
        columns = [labels[:, None], pixels]
        if name == "cifar100":
            columns.insert(0, labels[:, None] // 5)  # the coarse label
        (folder / f"{stem}.bin").write_bytes(np.hstack(columns).tobytes())
    names = "batches.meta.txt" if name == "cifar10" else "fine_label_names.txt"
    (folder / names).write_text("\n".join(class_names(name)) + "\n\n")
    return folder


def write_pickled(root: Path, name: str, protocol: int = 2, key: Callable[[str], Any] = str.encode) -> Path:
    """Strings written by Python 2 are bytes in Python 3."""
    folder = root / PUBLICATIONS[name].folders[1]
    folder.mkdir(parents=True)
    prefix = "" if name == "cifar10" else "fine_"
    for stem, (pixels, labels) in records(name).items():
        content = {key("data"): pixels, key(f"{prefix}labels"): labels.tolist(), key("filenames"): [key("a.png")]}
        (folder / stem).write_bytes(pickle.dumps(content, protocol))
    names = {key(f"{prefix}label_names"): [key(text) for text in class_names(name)]}
    (folder / ("batches.meta" if name == "cifar10" else "meta")).write_bytes(pickle.dumps(names, protocol))
    return folder


def check(root: Path, name: str) -> None:
    dataset = load_dataset(name, data_root=root)
    *train, test = records(name).values()
    for split, files in ((dataset.train, train), (dataset.test, [test])):
        pixels = np.concatenate([file[0] for file in files]).reshape(-1, 3, 32, 32)
        assert torch.equal(split.images, torch.from_numpy(pixels))
        assert split.labels.tolist() == np.concatenate([file[1] for file in files]).tolist()
    assert dataset.class_names == tuple(class_names(name))
    whole = dataset.train.images.double() / 255
    assert dataset.mean == pytest.approx(whole.mean((0, 2, 3)).tolist())
    assert dataset.std == pytest.approx(whole.std((0, 2, 3), correction=0).tolist())


@pytest.mark.parametrize("name", SETS)
def test_binary_and_pickled_versions(tmp_path: Path, name: str) -> None:
    write_binary(tmp_path / "binary", name)
    check(tmp_path / "binary", name)
    variants: list[tuple[int, Callable[[str], Any]]] = [(2, str.encode), (2, str), (4, str), (5, str)]
    for number, (protocol, key) in enumerate(variants):
        write_pickled(tmp_path / str(number), name, protocol, key)
        check(tmp_path / str(number), name)


@pytest.mark.parametrize("name", SETS)
def test_binary_version_is_preferred_if_complete(tmp_path: Path, name: str) -> None:
    binary, pickled = write_binary(tmp_path, name), write_pickled(tmp_path, name)
    assert find_source(name, tmp_path).root == binary
    next(binary.glob("test*.bin")).unlink()
    assert find_source(name, tmp_path).root == pickled


def test_resized(tmp_path: Path) -> None:
    write_binary(tmp_path, "cifar100")
    dataset = load_dataset("cifar100", data_root=tmp_path, image_size=16)
    assert dataset.train.images.shape == (TRAIN, 3, 16, 16)


def edit_binary(change: Callable[[bytearray], object]) -> Callable[[Path], Path]:
    def damage(root: Path) -> Path:
        path = write_binary(root, "cifar100") / "train.bin"
        content = bytearray(path.read_bytes())
        change(content)
        path.write_bytes(content)
        return path

    return damage


def edit_pickled(file: str, **change: Any) -> Callable[[Path], Path]:
    def damage(root: Path) -> Path:
        path = write_pickled(root, "cifar100", key=str) / file
        path.write_bytes(pickle.dumps(pickle.loads(path.read_bytes()) | change))
        return path

    return damage


def rewrite(write: Callable[[Path, str], Path], file: str, content: bytes) -> Callable[[Path], Path]:
    def damage(root: Path) -> Path:
        path = write(root, "cifar100") / file
        path.write_bytes(content)
        return path

    return damage


def test_damaged_files_are_reported(tmp_path: Path, decoded: Path) -> None:
    names = "fine_label_names.txt"
    cases = [
        (edit_binary(lambda content: content.pop()), r"has 21,517 bytes, expected 7 records of 3074"),
        (edit_binary(lambda content: content.append(0)), r"has 21,519 bytes"),
        (edit_binary(lambda content: content.clear()), r"has 0 bytes"),
        (edit_binary(lambda content: content.__delitem__(slice(3074))), r"has 18,444 bytes"),
        (edit_binary(lambda content: content.__setitem__(3075, 100)), "record 1 has label 100, expected 0 to 99"),
        (edit_binary(lambda content: content.__setitem__(0, 20)), "record 0 has label 20, expected 0 to 19"),
        (rewrite(write_binary, names, b"one\ntwo\n"), "has 2 different class names, expected 100"),
        (rewrite(write_binary, names, b"one\n" * 100), "has 1 different class names, expected 100"),
        (rewrite(write_binary, names, b"\xff" * 50), "has 1 different class names"),
        (
            edit_pickled("train", data=np.zeros((6, 3072), np.uint8)),
            r"uint8 of shape \(6, 3072\), expected .*\(7, 3072\)",
        ),
        (edit_pickled("train", data=np.zeros((7, 3072), np.int64)), "'data' is int64"),
        (edit_pickled("train", data=[1]), "'data' is list"),
        (edit_pickled("train", fine_labels=[1] * 6), "'fine_labels' is 6 values, expected a list of 7"),
        (edit_pickled("train", fine_labels=[1.5] * 7), "record 0 has label 1.5, expected 0 to 99"),
        (edit_pickled("train", fine_labels=None), "'fine_labels' is NoneType"),
        (edit_pickled("train", fine_labels=[0] * 6 + [100]), "record 6 has label 100, expected 0 to 99"),
        (edit_pickled("train", fine_labels=[0, -1, 0, 0, 0, 0, 2**70]), "record 1 has label -1"),
        (edit_pickled("meta", fine_label_names="many"), "has 0 different class names"),
        (edit_pickled("meta", fine_label_names=[["x"]] * 100), "has 0 different class names"),
        (rewrite(write_pickled, "test", pickle.dumps([1, 2])), "contains a list, expected a dict"),
    ]
    for number, (damage, message) in enumerate(cases):
        root = tmp_path / str(number)
        path = damage(root)
        with pytest.raises(ValueError, match=message) as caught:
            load_dataset("cifar100", data_root=root)
        assert str(path) in str(caught.value)
        assert not list(decoded.glob("*/*/*")), "a partly decoded dataset was left behind"


def test_missing_files_are_listed(tmp_path: Path) -> None:
    folder = write_binary(tmp_path, "cifar10")
    for number in (2, 4):
        (folder / f"data_batch_{number}.bin").unlink()
    with pytest.raises(ValueError, match=r"missing data_batch_2.bin, data_batch_4.bin; .* data fetch cifar10"):
        load_dataset("cifar10", data_root=tmp_path)
