"""A data set as its publisher gives it: which files it is made of, and how they are read a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from singleshot.data.decoding import Pixels, UnreadableImageError, decode_image, resize_images
from singleshot.data.locations import missing_dataset

Labels = npt.NDArray[np.int64]

BATCH = 500  # images held in memory at once while a set is decoded


@dataclass(frozen=True)
class Batch:
    """A few decoded images (N, C, S, S) with their labels (N,), and why others among them could not be read."""

    images: Pixels
    labels: Labels
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """A data set that is there, not yet decoded. ``train`` and ``test`` read it at a given size, in order."""

    name: str
    root: Path
    files: tuple[Path, ...]  # all that is read, below root
    class_names: tuple[str, ...]
    channels: int
    train: Callable[[int], Iterator[Batch]]
    test: Callable[[int], Iterator[Batch]]
    image_files: int | None = None  # how many images with a file each, which are slow to decode


@dataclass(frozen=True)
class ImageFile:
    """A file that holds one image, and its class."""

    path: Path
    label: int


def image_file_source(
    name: str,
    root: Path,
    class_names: tuple[str, ...],
    train: Sequence[ImageFile],
    test: Sequence[ImageFile],
    *,
    lists: Sequence[Path] = (),
) -> Source:
    """A data set of image files, taken as RGB; ``lists`` are other files that say what is in them."""
    return Source(
        name=name,
        root=root,
        files=(*lists, *(image.path for image in (*train, *test))),
        class_names=class_names,
        channels=3,
        train=lambda size: _decode_files(train, size),
        test=lambda size: _decode_files(test, size),
        image_files=len(train) + len(test),
    )


def resized_batches(images: Pixels, labels: Labels, size: int) -> Iterator[Batch]:
    """Batches of images that are in memory already, brought to the size."""
    for start in range(0, len(images), BATCH):
        stop = start + BATCH
        yield Batch(resize_images(images[start:stop], size), labels[start:stop])


def first_complete(name: str, candidates: Sequence[tuple[Path, Sequence[str]]]) -> Path:
    """The first folder that holds all the files it should, or an error that says what is missing where.

    A name such as ``a|b`` asks for any one of the alternatives.
    """
    for folder, needed in candidates:
        if not _missing(folder, needed):
            return folder
    for folder, needed in candidates:
        missing = _missing(folder, needed)
        if folder.is_dir() and len(missing) < len(needed):
            names = ", ".join(missing).replace("|", " or ")
            raise ValueError(f"{folder} is incomplete: it lacks {names}; singleshot data fetch {name} gets it all")
    raise missing_dataset(name, [folder for folder, _ in candidates])


def _missing(folder: Path, needed: Sequence[str]) -> list[str]:
    return [names for names in needed if not any((folder / name).is_file() for name in names.split("|"))]


def _decode_files(files: Sequence[ImageFile], size: int) -> Iterator[Batch]:
    for start in range(0, len(files), BATCH):
        images, labels, unreadable = [], [], []
        for file in files[start : start + BATCH]:
            pixels = _decoded_or_reason(file.path, size)
            if isinstance(pixels, str):
                unreadable.append(pixels)
            else:
                images.append(pixels)
                labels.append(file.label)
        together = np.stack(images) if images else np.empty((0, 3, size, size), np.uint8)
        yield Batch(together, np.array(labels, np.int64), tuple(unreadable))


def _decoded_or_reason(path: Path, size: int) -> Pixels | str:
    try:
        return decode_image(path, size, channels=3)
    except UnreadableImageError as error:
        return str(error)
