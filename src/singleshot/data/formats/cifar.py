"""CIFAR-10 and CIFAR-100, in the binary or the python layout of their publisher."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from singleshot.data.decoding import resize_images
from singleshot.data.formats.restricted_pickle import read_plain_pickle
from singleshot.data.locations import candidate_folders
from singleshot.data.source import BATCH, Batch, Labels, Source, first_complete, resized_batches

SIDE = 32
PIXELS = 3 * SIDE * SIDE


@dataclass(frozen=True)
class Layout:
    """How the publisher lays out one of the two sets. The binary files are the python ones with ``.bin`` added."""

    train: tuple[str, ...]
    test: tuple[str, ...]
    train_images: int  # in each file
    test_images: int
    label_kinds: tuple[int, ...]  # classes of each label byte of a record; the last byte is the label
    label_key: str
    binary_names: str
    python_names: str
    names_key: str


LAYOUTS = {
    "cifar10": Layout(
        train=tuple(f"data_batch_{number}" for number in range(1, 6)),
        test=("test_batch",),
        train_images=10_000,
        test_images=10_000,
        label_kinds=(10,),
        label_key="labels",
        binary_names="batches.meta.txt",
        python_names="batches.meta",
        names_key="label_names",
    ),
    "cifar100": Layout(
        train=("train",),
        test=("test",),
        train_images=50_000,
        test_images=10_000,
        label_kinds=(20, 100),  # coarse, fine
        label_key="fine_labels",
        binary_names="fine_label_names.txt",
        python_names="meta",
        names_key="fine_label_names",
    ),
}


def cifar_source(name: str, root: Path, layout: Layout | None = None) -> Source:
    """CIFAR in a data root; the binary layout is preferred where both are."""
    layout = layout or LAYOUTS[name]
    binary, python = candidate_folders(name, root)
    stems = (*layout.train, *layout.test)
    in_binary = (*(f"{stem}.bin" for stem in stems), layout.binary_names)
    in_python = (*stems, layout.python_names)
    folder = first_complete(name, [(binary, in_binary), (python, in_python)])
    is_binary = folder == binary

    def batches(stems: Sequence[str], count: int, size: int) -> Iterator[Batch]:
        for stem in stems:
            if is_binary:
                yield from _read_binary(folder / f"{stem}.bin", count, layout, size)
            else:
                yield from _read_python(folder / stem, count, layout, size)

    return Source(
        name=name,
        root=folder,
        files=tuple(folder / file for file in (in_binary if is_binary else in_python)),
        class_names=_class_names(folder, layout, is_binary),
        channels=3,
        train=lambda size: batches(layout.train, layout.train_images, size),
        test=lambda size: batches(layout.test, layout.test_images, size),
    )


def _read_binary(path: Path, count: int, layout: Layout, size: int) -> Iterator[Batch]:
    """Records of label bytes, then the red, the green and the blue plane."""
    label_bytes = len(layout.label_kinds)
    record = label_bytes + PIXELS
    found, expected = path.stat().st_size, count * record
    if found != expected:
        raise ValueError(f"{path} has {found:,} bytes, expected {expected:,} ({count:,} records of {record}); {_AGAIN}")
    with path.open("rb") as file:
        for start in range(0, count, BATCH):
            many = min(BATCH, count - start)
            content = np.frombuffer(file.read(many * record), np.uint8)
            if len(content) != many * record:  # it shrank while it was read
                raise ValueError(f"{path} ends after {file.tell():,} bytes, expected {expected:,}; {_AGAIN}")
            records = content.reshape(many, record)
            for column, classes in enumerate(layout.label_kinds):
                _check_labels(path, records[:, column], classes, start)
            images = records[:, label_bytes:].reshape(many, 3, SIDE, SIDE)
            yield Batch(resize_images(images, size), records[:, label_bytes - 1].astype(np.int64))


def _read_python(path: Path, count: int, layout: Layout, size: int) -> Iterator[Batch]:
    """A pickled dict of one array of pixels and a list of labels."""
    content = _read_dict(path)
    data, labels = content.get("data"), content.get(layout.label_key)
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape != (count, PIXELS):
        found = f"{data.dtype} of shape {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
        raise ValueError(f"{path}: 'data' is {found}, expected uint8 of shape ({count}, {PIXELS}); {_AGAIN}")
    numbers = _as_labels(path, labels, layout.label_key, count)
    _check_labels(path, numbers, layout.label_kinds[-1], 0)
    yield from resized_batches(data.reshape(count, 3, SIDE, SIDE), numbers, size)


def _as_labels(path: Path, labels: Any, key: str, count: int) -> Labels:
    if isinstance(labels, np.ndarray):
        labels = labels.tolist()
    if not isinstance(labels, list) or len(labels) != count or not all(type(label) is int for label in labels):
        found = f"{len(labels)} values" if isinstance(labels, list) else type(labels).__name__
        raise ValueError(f"{path}: {key!r} is {found}, expected a list of {count} whole numbers; {_AGAIN}")
    # A number too large for 64 bits is out of range anyway, and is then named as such.
    return np.array([max(-1, min(label, 255)) for label in labels], np.int64)


def _check_labels(path: Path, labels: Any, classes: int, start: int) -> None:
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        where = int(wrong[0])
        raise ValueError(
            f"{path}: record {start + where} has label {int(labels[where])}, expected 0 to {classes - 1}; {_AGAIN}"
        )


def _class_names(folder: Path, layout: Layout, is_binary: bool) -> tuple[str, ...]:
    if is_binary:
        path = folder / layout.binary_names
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        names = tuple(line.strip() for line in lines if line.strip())
    else:
        path = folder / layout.python_names
        found = _read_dict(path).get(layout.names_key)
        names = tuple(_text(name) for name in found) if isinstance(found, list) else ()
    classes = layout.label_kinds[-1]
    if len(set(names)) != classes or len(names) != classes:
        raise ValueError(f"{path} holds {len(set(names))} different class names, expected {classes}; {_AGAIN}")
    return names


def _read_dict(path: Path) -> dict[str, Any]:
    content = read_plain_pickle(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds a {type(content).__name__}, expected a dict; {_AGAIN}")
    return {_text(key): value for key, value in content.items()}


def _text(value: object) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


_AGAIN = "the file is damaged or of another set, get it again"
