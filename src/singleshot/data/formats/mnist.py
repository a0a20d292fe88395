"""MNIST and Fashion-MNIST in the idx format: a header with the shape, then bytes, plain or gzipped."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from singleshot.data.decoding import Pixels, resize_images
from singleshot.data.source import BATCH, ImageBatch, ImageSource

MAX_ITEMS = 1_000_000  # the largest dataset in this format has 814,255
UNSIGNED_BYTE = 0x08
SIDE = 28

CLASS_NAMES = {
    "mnist": tuple("0123456789"),
    "fashion_mnist": (
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
}
_DAMAGED = "the file is damaged, download it again"


def mnist_source(name: str, folder: Path, files: Sequence[Path]) -> ImageSource:
    """Read MNIST or Fashion-MNIST from the training images and labels, and the test images and labels."""
    return ImageSource(
        name=name,
        root=folder,
        files=tuple(files),
        class_names=CLASS_NAMES[name],
        channels=1,
        train=lambda size: _read_batches(files[0], files[1], size),
        test=lambda size: _read_batches(files[2], files[3], size),
    )


def _read_batches(images_path: Path, labels_path: Path, size: int) -> Iterator[ImageBatch]:
    labels = np.concatenate(list(read_idx(labels_path, ())))
    wrong = np.flatnonzero(labels > 9)
    if len(wrong):
        raise ValueError(f"{labels_path}: label {wrong[0]} is {labels[wrong[0]]}, expected 0 to 9; {_DAMAGED}")
    start = 0
    for images in read_idx(images_path, (SIDE, SIDE), count=len(labels)):
        stop = start + len(images)
        yield ImageBatch(resize_images(images[:, None], size), labels[start:stop].astype(np.int64))
        start = stop


def read_idx(path: Path, item_shape: tuple[int, ...], count: int | None = None) -> Iterator[Pixels]:
    """Yield the items of an idx file of bytes in batches.

    Raise a ValueError if the items do not have the given shape, if there are not ``count`` items, or if the file does
    not have the length its header states.
    """
    try:
        with _open(path) as file:
            items = _read_count(path, file, item_shape)
            if count not in (None, items):
                raise ValueError(f"{path} has {items:,} images, but there are {count:,} labels; {_DAMAGED}")
            item_bytes = math.prod(item_shape)
            for start in range(0, items, BATCH):
                length = min(BATCH, items - start)
                content = file.read(length * item_bytes)
                if len(content) < length * item_bytes:
                    raise ValueError(
                        f"{path} is shorter than the {items * item_bytes:,} bytes in its header; {_DAMAGED}"
                    )
                yield np.frombuffer(content, np.uint8).reshape(length, *item_shape)
            if file.read(1):
                raise ValueError(f"{path} is longer than the {items * item_bytes:,} bytes in its header; {_DAMAGED}")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is not a valid gzip file ({error}); {_DAMAGED}") from None


def _open(path: Path) -> BinaryIO:
    return cast("BinaryIO", gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def _read_count(path: Path, file: BinaryIO, item_shape: tuple[int, ...]) -> int:
    """Read the header and return the number of items."""
    dimensions = 1 + len(item_shape)
    expected = bytes([0, 0, UNSIGNED_BYTE, dimensions])
    magic = file.read(4)
    if magic != expected:
        raise ValueError(
            f"{path} starts with {magic.hex(' ') or 'nothing'}, expected {expected.hex(' ')} for an idx file of "
            f"bytes with {dimensions} dimension{'s' * (dimensions > 1)}; {_DAMAGED}"
        )
    lengths = file.read(4 * dimensions)
    if len(lengths) < 4 * dimensions:
        raise ValueError(f"{path} ends within its header; {_DAMAGED}")
    items, *shape = struct.unpack(f">{dimensions}I", lengths)
    if tuple(shape) != item_shape or not 0 < items <= MAX_ITEMS:
        found = " × ".join(map(str, (items, *shape)))
        expected_shape = " × ".join(["N", *map(str, item_shape)])
        raise ValueError(
            f"{path} has shape {found}, expected {expected_shape} with N from 1 to {MAX_ITEMS:,}; {_DAMAGED}"
        )
    return int(items)
