"""CIFAR-10 and CIFAR-100, in the publisher's binary or Python (pickle) version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from singleshot.data.catalogue import Publication
from singleshot.data.decoding import Pixels
from singleshot.data.formats.restricted_pickle import read_pickled_dict
from singleshot.data.image_source import ImageBatch, ImageSource, Labels, resized_batches

SIDE = 32
PIXELS = 3 * SIDE * SIDE
_DAMAGED = "the file is damaged or belongs to another dataset, download it again"


def cifar_source(published: Publication, folder: Path, files: Sequence[Path], *, pickled: bool) -> ImageSource:
    """Read CIFAR from one or more training files, a test file and a file with the class names."""
    *train, test, names = files
    classes = published.classes
    read = _read_pickled if pickled else _read_binary

    def batches(paths: Sequence[Path], images: int, size: int) -> Iterator[ImageBatch]:
        for path in paths:
            pixels, labels = read(path, images // len(paths), classes)
            yield from resized_batches(pixels.reshape(-1, 3, SIDE, SIDE), labels, size)

    return ImageSource(
        name=published.name,
        root=folder,
        files=tuple(files),
        class_names=_class_names(names, classes, pickled=pickled),
        channels=3,
        train=lambda size: batches(train, published.train_images, size),
        test=lambda size: batches([test], published.test_images, size),
    )


def _read_binary(path: Path, count: int, classes: int) -> tuple[Pixels, Labels]:
    """Read records of label bytes followed by the red, green and blue planes."""
    label_classes = (10,) if classes == 10 else (20, classes)  # CIFAR-100: the coarse label, then the fine one
    record = len(label_classes) + PIXELS
    found = path.stat().st_size
    if found != count * record:
        raise ValueError(f"{path} has {found:,} bytes, expected {count:,} records of {record}; {_DAMAGED}")
    records = np.fromfile(path, np.uint8).reshape(count, record)
    for column, limit in enumerate(label_classes):
        _check_labels(path, records[:, column].tolist(), limit)
    return records[:, -PIXELS:], records[:, len(label_classes) - 1].astype(np.int64)


def _read_pickled(path: Path, count: int, classes: int) -> tuple[Pixels, Labels]:
    """Read a pickled dict with an array of pixels and a list of labels."""
    content = read_pickled_dict(path)
    data, key = content.get("data"), "labels" if classes == 10 else "fine_labels"
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape != (count, PIXELS):
        found = f"{data.dtype} of shape {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
        raise ValueError(f"{path}: 'data' is {found}, expected uint8 of shape ({count}, {PIXELS}); {_DAMAGED}")
    labels = content.get(key)
    labels = labels.tolist() if isinstance(labels, np.ndarray) else labels
    if not isinstance(labels, list) or len(labels) != count:
        found = f"{len(labels)} values" if isinstance(labels, list) else type(labels).__name__
        raise ValueError(f"{path}: {key!r} is {found}, expected a list of {count} labels; {_DAMAGED}")
    _check_labels(path, labels, classes)
    return data, np.array(labels, np.int64)


def _check_labels(path: Path, labels: list[Any], classes: int) -> None:
    for record, label in enumerate(labels):
        if type(label) is not int or not 0 <= label < classes:
            raise ValueError(f"{path}: record {record} has label {label!r}, expected 0 to {classes - 1}; {_DAMAGED}")


def _class_names(path: Path, classes: int, *, pickled: bool) -> tuple[str, ...]:
    if pickled:
        found = read_pickled_dict(path).get("label_names" if classes == 10 else "fine_label_names")
        values = found if isinstance(found, list) else []
        names = tuple(name.decode("latin1") if isinstance(name, bytes) else name for name in values)
    else:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        names = tuple(line.strip() for line in lines if line.strip())
    distinct = {name for name in names if isinstance(name, str)}
    if len(distinct) != classes or len(names) != classes:
        raise ValueError(f"{path} has {len(distinct)} different class names, expected {classes}; {_DAMAGED}")
    return names
