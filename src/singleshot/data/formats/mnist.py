"""The idx format of MNIST and those that follow it: a header with the lengths, then bytes; plain or gzipped."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from singleshot.data.decoding import Pixels, resize_images
from singleshot.data.locations import candidate_folders
from singleshot.data.source import BATCH, Batch, Source, first_complete

MOST_ITEMS = 1_000_000  # the largest sets of this kind have 814,255; a header can promise anything
UNSIGNED_BYTES = 0x08


@dataclass(frozen=True)
class IdxReader:
    """An open idx file: its shape, and its items in order."""

    path: Path
    shape: tuple[int, ...]
    file: BinaryIO

    def take(self, count: int) -> Pixels:
        """The next items; an error when the file ends before."""
        wanted = count * math.prod(self.shape[1:])
        content = self.file.read(wanted)
        if len(content) < wanted:
            raise ValueError(
                f"{self.path} is truncated: its header promises {math.prod(self.shape):,} bytes after it, and "
                f"{wanted - len(content):,} of them or more are missing; get the file again"
            )
        return np.frombuffer(content, np.uint8).reshape(count, *self.shape[1:])

    def check_end(self) -> None:
        """An error when more follows than the header promised."""
        if self.file.read(1):
            raise ValueError(
                f"{self.path} is longer than the {math.prod(self.shape):,} bytes that its header promises after it; "
                "get the file again"
            )


@contextmanager
def open_idx(path: Path, item_shape: tuple[int, ...]) -> Iterator[IdxReader]:
    """Open an idx file of bytes whose items must have this shape; whatever is wrong with it names the file."""
    try:
        with _opened(path) as file:
            yield IdxReader(path, _shape(path, file, item_shape), file)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is a damaged gzip file ({error}); get it again") from None


def find_idx(folder: Path, name: str) -> Path:
    """The plain file if it is there, else the gzipped one."""
    plain = folder / name
    return plain if plain.is_file() else folder / f"{name}.gz"


def _opened(path: Path) -> BinaryIO:
    return cast("BinaryIO", gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def _shape(path: Path, file: BinaryIO, item_shape: tuple[int, ...]) -> tuple[int, ...]:
    dimensions = 1 + len(item_shape)
    expected = bytes([0, 0, UNSIGNED_BYTES, dimensions])
    magic = file.read(4)
    if magic != expected:
        raise ValueError(
            f"{path} starts with {magic.hex(' ') or 'nothing'}, expected {expected.hex(' ')}: it is no idx file of "
            f"bytes with {dimensions} dimension{'s' * (dimensions > 1)}"
        )
    lengths = file.read(4 * dimensions)
    if len(lengths) < 4 * dimensions:
        raise ValueError(f"{path} is truncated: it ends within its header; get the file again")
    shape = struct.unpack(f">{dimensions}I", lengths)
    if shape[1:] != item_shape or not 0 < shape[0] <= MOST_ITEMS:
        wanted = " × ".join(["N", *map(str, item_shape)])
        raise ValueError(
            f"{path} promises {' × '.join(map(str, shape))} bytes, expected {wanted} with N from 1 to {MOST_ITEMS:,}"
        )
    return shape


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
PARTS = ("train", "t10k")


def mnist_source(name: str, root: Path) -> Source:
    """MNIST or Fashion-MNIST in a data root, or where a package of the system installs it."""
    stems = [file for part in PARTS for file in (_images_file(part), _labels_file(part))]
    needed = [f"{stem}|{stem}.gz" for stem in stems]
    folder = first_complete(name, [(candidate, needed) for candidate in candidate_folders(name, root)])
    return Source(
        name=name,
        root=folder,
        files=tuple(find_idx(folder, stem) for stem in stems),
        class_names=CLASS_NAMES[name],
        channels=1,
        train=lambda size: _batches(folder, "train", size),
        test=lambda size: _batches(folder, "t10k", size),
    )


def _images_file(part: str) -> str:
    return f"{part}-images-idx3-ubyte"


def _labels_file(part: str) -> str:
    return f"{part}-labels-idx1-ubyte"


def _batches(folder: Path, part: str, size: int) -> Iterator[Batch]:
    images_path, labels_path = find_idx(folder, _images_file(part)), find_idx(folder, _labels_file(part))
    with open_idx(labels_path, ()) as reader:
        labels = reader.take(reader.shape[0])
        reader.check_end()
    wrong = np.flatnonzero(labels > 9)
    if len(wrong):
        raise ValueError(f"{labels_path}: label {wrong[0]} is {labels[wrong[0]]}, expected 0 to 9; get the file again")
    with open_idx(images_path, (SIDE, SIDE)) as reader:
        if reader.shape[0] != len(labels):
            raise ValueError(
                f"{images_path} promises {reader.shape[0]:,} images, but {labels_path} holds {len(labels):,} labels; "
                "get both again"
            )
        for start in range(0, len(labels), BATCH):
            few = labels[start : start + BATCH]
            yield Batch(resize_images(reader.take(len(few))[:, None], size), few.astype(np.int64))
        reader.check_end()
