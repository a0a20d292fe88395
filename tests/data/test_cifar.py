"""CIFAR in the publisher's versions, with fewer images."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from predictions.test_damaged_files import Bomb
from singleshot.data import load_dataset
from singleshot.data.catalogue import PUBLICATIONS, DatasetLayout, KnownFile
from singleshot.data.formats.cifar import _unpickle
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


def write_pickled(root: Path, name: str) -> Path:
    """Write files as Python 2 wrote them, and make them the published ones. Their strings are bytes in Python 3."""
    published = PUBLICATIONS[name]
    folder = root / published.folders[1]
    folder.mkdir(parents=True)
    prefix = b"" if name == "cifar10" else b"fine_"
    contents: dict[str, dict[bytes, Any]] = {
        stem: {b"data": pixels, prefix + b"labels": labels.tolist()} for stem, (pixels, labels) in records(name).items()
    }
    names = "batches.meta" if name == "cifar10" else "meta"
    contents[names] = {prefix + b"label_names": [text.encode() for text in class_names(name)]}
    known = []
    for file, content in contents.items():
        data = pickle.dumps(content, 2)
        (folder / file).write_bytes(data)
        known.append(KnownFile(file, len(data), f"md5:{hashlib.md5(data).hexdigest()}"))
    layouts = (published.layouts[0], DatasetLayout("python", tuple(known)))
    PUBLICATIONS[name] = replace(published, layouts=layouts)  # restored by the fixture
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
    write_pickled(tmp_path / "pickled", name)
    check(tmp_path / "pickled", name)


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
        (rewrite(write_binary, names, b"one\ntwo\n"), "has 2 different class names, expected 100"),
        (rewrite(write_binary, names, b"one\n" * 100), "has 1 different class names, expected 100"),
        (rewrite(write_binary, names, b"\xff" * 50), "has 1 different class names"),
        (rewrite(write_pickled, "train", pickle.dumps({b"data": []})), "only the published files are unpickled"),
        (rewrite(write_pickled, "meta", pickle.dumps(Bomb())), "only the published files are unpickled"),
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


def test_array_pickled_by_python_2(tmp_path: Path) -> None:
    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    array = np.arange(12, dtype=np.uint8).reshape(2, 6)
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R"
    byte_order = b"(K\x03" + text(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    dtype = b"cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R" + byte_order
    state = b"(K\x01K\x02K\x06\x86" + dtype + b"\x89" + text(array.tobytes()) + b"tb"
    data = b"\x80\x02}(" + text(b"data") + empty + state + b"u."
    (tmp_path / "train").write_bytes(data)
    content = _unpickle(tmp_path / "train", f"md5:{hashlib.md5(data).hexdigest()}")
    np.testing.assert_array_equal(content[b"data"], array)


def test_a_pickle_that_names_a_function_is_refused_whatever_its_checksum(tmp_path: Path) -> None:
    data = pickle.dumps(Bomb())
    (tmp_path / "train").write_bytes(data)
    with pytest.raises(pickle.UnpicklingError, match="not allowed"):
        _unpickle(tmp_path / "train", f"md5:{hashlib.md5(data).hexdigest()}")


def test_a_huge_pickle_is_not_read_as_a_whole(tmp_path: Path) -> None:
    with (tmp_path / "train").open("wb") as file:
        file.truncate(2**40)  # sparse
    with pytest.raises(ValueError, match="has more than 268,435,456 bytes; only the published files are unpickled"):
        _unpickle(tmp_path / "train", "md5:0")
