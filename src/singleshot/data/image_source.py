"""The files of a dataset before decoding, and how to read them in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from singleshot.data.decoding import BATCH, Pixels, UnreadableImageError, decode_image, resize_images

Labels = npt.NDArray[np.int64]
LabelledFile = tuple[Path, int]
"""A file with one image, and its class."""


@dataclass(frozen=True)
class ImageBatch:
    """Decoded images (N, C, S, S) with labels (N,), and the reasons why other images of the batch are unreadable."""

    images: Pixels
    labels: Labels
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImageSource:
    """The files of a dataset. ``train`` and ``test`` decode them in order, at the given image size."""

    name: str
    root: Path
    files: tuple[Path, ...]  # every file that is read, below root
    class_names: tuple[str, ...]
    channels: int
    train: Callable[[int], Iterator[ImageBatch]]
    test: Callable[[int], Iterator[ImageBatch]]
    image_files: int | None = None  # number of images if each has its own file, which is slow to decode


def image_file_source(
    name: str,
    root: Path,
    class_names: tuple[str, ...],
    train: Sequence[LabelledFile],
    test: Sequence[LabelledFile],
    *,
    lists: Sequence[Path] = (),
) -> ImageSource:
    """Return a source of RGB image files; ``lists`` are other files that the classes were read from."""
    return ImageSource(
        name=name,
        root=root,
        files=(*lists, *(path for path, _ in (*train, *test))),
        class_names=class_names,
        channels=3,
        train=lambda size: decode_files(train, size),
        test=lambda size: decode_files(test, size),
        image_files=len(train) + len(test),
    )


def decode_files(
    files: Sequence[LabelledFile], size: int, *, channels: int = 3, batch: int = BATCH
) -> Iterator[ImageBatch]:
    """Decode image files in batches."""
    for start in range(0, len(files), batch):
        images, labels, unreadable = [], [], []
        for path, label in files[start : start + batch]:
            try:
                images.append(decode_image(path, size, channels))
                labels.append(label)
            except UnreadableImageError as error:  # noqa: PERF203
                unreadable.append(str(error))
        stacked = np.stack(images) if images else np.empty((0, channels, size, size), np.uint8)
        yield ImageBatch(stacked, np.array(labels, np.int64), tuple(unreadable))


def resized_batches(images: Pixels, labels: npt.NDArray[np.integer[Any]], size: int) -> Iterator[ImageBatch]:
    """Resize images (N, C, H, W) in batches."""
    for start in range(0, len(images), BATCH):
        part = slice(start, start + BATCH)
        yield ImageBatch(resize_images(images[part], size), labels[part].astype(np.int64))
