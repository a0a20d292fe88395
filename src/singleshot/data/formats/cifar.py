"""CIFAR-10 and CIFAR-100, in the publisher's binary or Python (pickle) version."""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from singleshot.data.catalogue import DatasetLayout, Publication
from singleshot.data.decoding import Pixels
from singleshot.data.image_source import ImageBatch, ImageSource, Labels, resized_batches

SIDE = 32
PIXELS = 3 * SIDE * SIDE
MAX_PICKLE = 2**28  # bytes; the largest published file has 155 million
_DAMAGED = "the file is damaged or belongs to another dataset, download it again"
_NOT_PUBLISHED = "only the published files are unpickled, download them again or use the binary version"


def cifar_source(published: Publication, layout: DatasetLayout, folder: Path, files: Sequence[Path]) -> ImageSource:
    """Read CIFAR from one or more training files, a test file and a file with the class names."""
    *train, test, names = files
    classes = published.classes
    checksums = {folder / file.name: file.checksum for file in layout.files} if layout.name == "python" else None

    def batches(paths: Sequence[Path], images: int, size: int) -> Iterator[ImageBatch]:
        for path in paths:
            if checksums is None:
                pixels, labels = _read_binary(path, images // len(paths), classes)
            else:
                content = _unpickle(path, checksums[path])
                pixels, labels = content[b"data"], np.array(content[b"labels" if classes == 10 else b"fine_labels"])
            yield from resized_batches(pixels.reshape(-1, 3, SIDE, SIDE), labels, size)

    if checksums is None:
        class_names = _read_names(names, classes)
    else:
        listed = _unpickle(names, checksums[names])[b"label_names" if classes == 10 else b"fine_label_names"]
        class_names = tuple(name.decode() for name in listed)
    return ImageSource(
        name=published.name,
        root=folder,
        files=tuple(files),
        class_names=class_names,
        channels=3,
        train=lambda size: batches(train, published.train_images, size),
        test=lambda size: batches([test], published.test_images, size),
    )


class _ArrayUnpickler(pickle.Unpickler):
    """Refuses every name except those that a pickled array refers to."""

    def find_class(self, module: str, name: str) -> Any:
        if (module.partition(".")[0], name) not in _ARRAY_NAMES:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}, which is not allowed")
        return super().find_class(module, name)


_ARRAY_NAMES = {("numpy", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}


def _unpickle(path: Path, checksum: str | None) -> dict[bytes, Any]:
    """Unpickle a file only if it is the published one. Even then, only plain values and arrays are allowed."""
    if path.stat().st_size > MAX_PICKLE:
        raise ValueError(f"{path} has more than {MAX_PICKLE:,} bytes; {_NOT_PUBLISHED}")
    content = path.read_bytes()
    found = f"md5:{hashlib.md5(content, usedforsecurity=False).hexdigest()}"
    if found != checksum:
        raise ValueError(f"{path} has checksum {found}, expected {checksum}; {_NOT_PUBLISHED}")
    published: dict[bytes, Any] = _ArrayUnpickler(io.BytesIO(content), encoding="bytes").load()
    return published


def _read_binary(path: Path, count: int, classes: int) -> tuple[Pixels, Labels]:
    """Read records of label bytes followed by the red, green and blue planes."""
    label_bytes = 1 if classes == 10 else 2  # CIFAR-100: the coarse label, then the fine one
    record = label_bytes + PIXELS
    found = path.stat().st_size
    if found != count * record:
        raise ValueError(f"{path} has {found:,} bytes, expected {count:,} records of {record}; {_DAMAGED}")
    records = np.fromfile(path, np.uint8).reshape(count, record)
    labels = records[:, label_bytes - 1].astype(np.int64)
    wrong = np.flatnonzero(labels >= classes)
    if len(wrong):
        label = f"record {wrong[0]} has label {labels[wrong[0]]}, expected 0 to {classes - 1}"
        raise ValueError(f"{path}: {label}; {_DAMAGED}")
    return records[:, label_bytes:], labels


def _read_names(path: Path, classes: int) -> tuple[str, ...]:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    names = tuple(line.strip() for line in lines if line.strip())
    if not len(set(names)) == len(names) == classes:
        raise ValueError(f"{path} has {len(set(names))} different class names, expected {classes}; {_DAMAGED}")
    return names
