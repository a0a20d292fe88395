"""CIFAR in its publisher's layouts, with fewer images than the real thing."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from singleshot.data.cache import load_source
from singleshot.data.formats.cifar import LAYOUTS, Layout, cifar_source

TRAIN, TEST = 7, 4  # images in each file
FOLDERS = {
    "cifar10": ("cifar-10-batches-bin", "cifar-10-batches-py"),
    "cifar100": ("cifar-100-binary", "cifar-100-python"),
}
SETS = sorted(FOLDERS)

Records = dict[str, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]


def small(name: str) -> Layout:
    return dataclasses.replace(LAYOUTS[name], train_images=TRAIN, test_images=TEST)


def records(name: str) -> Records:
    """Pixels and labels for each file."""
    generator = np.random.default_rng(0)
    layout = small(name)
    sizes = {**dict.fromkeys(layout.train, TRAIN), **dict.fromkeys(layout.test, TEST)}
    return {
        stem: (
            generator.integers(0, 256, (count, 3072), np.uint8),
            generator.integers(0, layout.label_kinds[-1], count, np.uint8),
        )
        for stem, count in sizes.items()
    }


def class_names(name: str) -> list[str]:
    return [f"class {number}" for number in range(LAYOUTS[name].label_kinds[-1])]


def write_binary(root: Path, name: str) -> Path:
    folder = root / FOLDERS[name][0]
    folder.mkdir(parents=True)
    for stem, (pixels, labels) in records(name).items():
        columns = [labels[:, None], pixels]
        if name == "cifar100":
            columns.insert(0, labels[:, None] // 5)  # the coarse label
        (folder / f"{stem}.bin").write_bytes(np.hstack(columns).tobytes())
    (folder / LAYOUTS[name].binary_names).write_text("\n".join(class_names(name)) + "\n\n")
    return folder


def write_python(root: Path, name: str, protocol: int = 2, key: Callable[[str], Any] = str.encode) -> Path:
    """Bytes as keys are what Python 2's strings become."""
    folder = root / FOLDERS[name][1]
    folder.mkdir(parents=True)
    layout = LAYOUTS[name]
    for stem, (pixels, labels) in records(name).items():
        content = {key("data"): pixels, key(layout.label_key): labels.tolist(), key("filenames"): [key("a.png")]}
        (folder / stem).write_bytes(pickle.dumps(content, protocol))
    names = {key(layout.names_key): [key(text) for text in class_names(name)]}
    (folder / layout.python_names).write_bytes(pickle.dumps(names, protocol))
    return folder


def check(root: Path, name: str) -> None:
    dataset = load_source(cifar_source(name, root, small(name)), 32)
    content, layout = records(name), LAYOUTS[name]
    for part, stems in ((dataset.train, layout.train), (dataset.test, layout.test)):
        pixels = np.concatenate([content[stem][0] for stem in stems]).reshape(-1, 3, 32, 32)
        labels = np.concatenate([content[stem][1] for stem in stems])
        assert torch.equal(part.images, torch.from_numpy(pixels))
        assert part.labels.tolist() == labels.tolist()
    assert dataset.class_names == tuple(class_names(name))
    whole = dataset.train.images.double() / 255
    assert dataset.mean == pytest.approx(whole.mean((0, 2, 3)).tolist())
    assert dataset.std == pytest.approx(whole.std((0, 2, 3), correction=0).tolist())


@pytest.mark.parametrize("name", SETS)
def test_the_binary_layout(tmp_path: Path, name: str) -> None:
    write_binary(tmp_path, name)
    check(tmp_path, name)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(("protocol", "key"), [(2, str.encode), (2, str), (4, str), (5, str)])
def test_the_python_layout(tmp_path: Path, name: str, protocol: int, key: Callable[[str], Any]) -> None:
    write_python(tmp_path, name, protocol, key)
    check(tmp_path, name)


@pytest.mark.parametrize("name", SETS)
def test_binary_is_preferred_when_it_is_complete(tmp_path: Path, name: str) -> None:
    binary, python = write_binary(tmp_path, name), write_python(tmp_path, name)
    assert cifar_source(name, tmp_path, small(name)).root == binary
    (binary / f"{LAYOUTS[name].test[0]}.bin").unlink()
    assert cifar_source(name, tmp_path, small(name)).root == python


def test_other_sizes_are_resized(tmp_path: Path) -> None:
    write_binary(tmp_path, "cifar100")
    dataset = load_source(cifar_source("cifar100", tmp_path, small("cifar100")), 16)
    assert dataset.train.images.shape == (TRAIN, 3, 16, 16)


def edit_binary(change: Callable[[bytearray], object]) -> Callable[[Path], Path]:
    def damage(root: Path) -> Path:
        path = write_binary(root, "cifar100") / "train.bin"
        content = bytearray(path.read_bytes())
        change(content)
        path.write_bytes(content)
        return path

    return damage


def edit_python(file: str, **change: Any) -> Callable[[Path], Path]:
    def damage(root: Path) -> Path:
        path = write_python(root, "cifar100", key=str) / file
        path.write_bytes(pickle.dumps(pickle.loads(path.read_bytes()) | change))
        return path

    return damage


def rewrite(file: str, content: bytes) -> Callable[[Path], Path]:
    def damage(root: Path) -> Path:
        path = next(folder / file for folder in (write_binary(root, "cifar100"),))
        path.write_bytes(content)
        return path

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (edit_binary(lambda content: content.pop()), r"has 21,517 bytes, expected 21,518 \(7 records of 3074\)"),
        (edit_binary(lambda content: content.append(0)), r"has 21,519 bytes, expected 21,518"),
        (edit_binary(lambda content: content.clear()), r"has 0 bytes"),
        (edit_binary(lambda content: content.__delitem__(slice(3074))), r"has 18,444 bytes, expected 21,518"),
        (edit_binary(lambda content: content.__setitem__(3075, 100)), "record 1 has label 100, expected 0 to 99"),
        (edit_binary(lambda content: content.__setitem__(0, 20)), "record 0 has label 20, expected 0 to 19"),
        (rewrite("fine_label_names.txt", b"one\ntwo\n"), "holds 2 different class names, expected 100"),
        (rewrite("fine_label_names.txt", b"one\n" * 100), "holds 1 different class names, expected 100"),
        (rewrite("fine_label_names.txt", b"\xff" * 50), "holds 1 different class names"),
        (
            edit_python("train", data=np.zeros((6, 3072), np.uint8)),
            r"uint8 of shape \(6, 3072\), expected .*\(7, 3072\)",
        ),
        (edit_python("train", data=np.zeros((7, 3072), np.int64)), "'data' is int64"),
        (edit_python("train", data=[1]), "'data' is list"),
        (edit_python("train", fine_labels=[1] * 6), "'fine_labels' is 6 values, expected a list of 7"),
        (edit_python("train", fine_labels=[1.5] * 7), "expected a list of 7 whole numbers"),
        (edit_python("train", fine_labels=None), "'fine_labels' is NoneType"),
        (edit_python("train", fine_labels=[0] * 6 + [100]), "record 6 has label 100, expected 0 to 99"),
        (edit_python("train", fine_labels=[0, -1, 0, 0, 0, 0, 2**70]), "record 1 has label -1"),
        (edit_python("meta", fine_label_names="many"), "holds 0 different class names"),
    ],
)
def test_damage_is_named(tmp_path: Path, damage: Callable[[Path], Path], message: str, decoded: Path) -> None:
    path = damage(tmp_path)
    with pytest.raises(ValueError, match=message) as caught:
        load_source(cifar_source("cifar100", tmp_path, small("cifar100")), 32)
    assert str(path) in str(caught.value)
    assert not list(decoded.glob("*/*/*")), "nothing half decoded is left"


def test_a_pickle_that_is_no_dict(tmp_path: Path) -> None:
    path = write_python(tmp_path, "cifar10") / "test_batch"
    path.write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(ValueError, match="test_batch holds a list, expected a dict"):
        load_source(cifar_source("cifar10", tmp_path, small("cifar10")), 32)


def test_what_is_missing_is_listed(tmp_path: Path) -> None:
    folder = write_binary(tmp_path, "cifar10")
    for number in (2, 4):
        (folder / f"data_batch_{number}.bin").unlink()
    with pytest.raises(ValueError, match=r"lacks data_batch_2.bin, data_batch_4.bin; singleshot data fetch cifar10"):
        cifar_source("cifar10", tmp_path)
