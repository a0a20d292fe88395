"""MNIST and Fashion-MNIST in the idx format: a header with the shape, then bytes, plain or gzipped."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from singleshot.data.catalogue import Publication
from singleshot.data.decoding import Pixels
from singleshot.data.image_source import ImageBatch, ImageSource, resized_batches

MAX_ITEMS = 1_000_000  # the largest dataset in this format has 814,255
UNSIGNED_BYTE = 0x08
SIDE = 28
_DAMAGED = "the file is damaged, download it again"


def mnist_source(published: Publication, folder: Path, files: Sequence[Path]) -> ImageSource:
    """Read MNIST or Fashion-MNIST from the training images and labels, and the test images and labels."""
    return ImageSource(
        name=published.name,
        root=folder,
        files=tuple(files),
        class_names=published.class_names,
        channels=1,
        train=lambda size: _read_batches(files[0], files[1], size),
        test=lambda size: _read_batches(files[2], files[3], size),
    )


def _read_batches(images_path: Path, labels_path: Path, size: int) -> Iterator[ImageBatch]:
    labels = read_idx(labels_path, ())
    wrong = np.flatnonzero(labels > 9)
    if len(wrong):
        raise ValueError(f"{labels_path}: label {wrong[0]} is {labels[wrong[0]]}, expected 0 to 9; {_DAMAGED}")
    images = read_idx(images_path, (SIDE, SIDE))
    if len(images) != len(labels):
        raise ValueError(f"{images_path} has {len(images):,} images, but there are {len(labels):,} labels; {_DAMAGED}")
    yield from resized_batches(images[:, None], labels, size)


def read_idx(path: Path, item_shape: tuple[int, ...]) -> Pixels:
    """Read an idx file of bytes, with items of the given shape."""
    dimensions = 1 + len(item_shape)
    expected = bytes([0, 0, UNSIGNED_BYTE, dimensions])
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            magic, lengths = file.read(4), file.read(4 * dimensions)
            if magic != expected or len(lengths) < 4 * dimensions:
                found = (magic + lengths).hex(" ") or "nothing"
                raise ValueError(f"{path} starts with {found}, expected {expected.hex(' ')} and a shape; {_DAMAGED}")
            items, *shape = struct.unpack(f">{dimensions}I", lengths)
            if tuple(shape) != item_shape or not 0 < items <= MAX_ITEMS:
                found = " × ".join(map(str, (items, *shape)))
                wanted = " × ".join(["N", *map(str, item_shape)])
                raise ValueError(
                    f"{path} has shape {found}, expected {wanted} with N from 1 to {MAX_ITEMS:,}; {_DAMAGED}"
                )
            size = items * math.prod(item_shape)
            content = file.read(size + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is not a valid gzip file ({error}); {_DAMAGED}") from None
    if len(content) != size:
        comparison = "shorter" if len(content) < size else "longer"
        raise ValueError(f"{path} is {comparison} than the {size:,} bytes in its header; {_DAMAGED}")
    array: Pixels = np.frombuffer(content, np.uint8).reshape(items, *item_shape)
    return array
