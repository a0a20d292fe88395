"""The decoded form of a data set on disk: arrays that can be mapped into memory, and a page that describes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from singleshot.data.images import Dataset, Images
from singleshot.data.npy import NpyWriter
from singleshot.data.progress import decoding_progress
from singleshot.data.source import Batch, Labels, Source
from singleshot.data.statistics import PixelCounts
from singleshot.files import write_text

FORMAT = 1  # raised when the same files would be decoded to other pixels, or kept in another way
MOST_NAMED = 5


@dataclass(frozen=True)
class Meta:
    """What ``meta.json`` says."""

    format: int
    name: str
    root: str  # the folder of the sources
    files: int  # how many sources there were
    image_size: int
    channels: int
    class_names: list[str]
    train_images: int
    test_images: int
    mean: list[float]
    std: list[float]
    unreadable: int  # images left out, because they could not be read
    unreadable_examples: list[str]


def write_decoded(folder: Path, source: Source, image_size: int) -> None:
    """Decode a source into a folder, holding a few images in memory at a time."""
    counts = PixelCounts(source.channels)
    unreadable: list[str] = []
    with decoding_progress(source.name, source.image_files) as advance:

        def watched(batches: Iterator[Batch]) -> Iterator[Batch]:
            for batch in batches:
                unreadable.extend(batch.unreadable)
                yield batch
                advance(len(batch.labels) + len(batch.unreadable))

        def counted(batches: Iterator[Batch]) -> Iterator[Batch]:
            for batch in batches:
                counts.add(batch.images)
                yield batch

        shape = (source.channels, image_size, image_size)
        train = _write_part(folder, "train", shape, counted(watched(source.train(image_size))))
        test = _write_part(folder, "test", shape, watched(source.test(image_size)))
    _check_what_is_left(source, train, test, unreadable)
    meta = Meta(
        format=FORMAT,
        name=source.name,
        root=str(source.root.resolve()),
        files=len(source.files),
        image_size=image_size,
        channels=source.channels,
        class_names=list(source.class_names),
        train_images=len(train),
        test_images=len(test),
        mean=list(counts.mean()),
        std=list(counts.std()),
        unreadable=len(unreadable),
        unreadable_examples=unreadable[:MOST_NAMED],
    )
    write_text(folder / "meta.json", json.dumps(asdict(meta), indent=2))


def read_decoded(folder: Path, source: Source, image_size: int) -> tuple[Dataset, Meta] | None:
    """What was decoded from this source, its images mapped; None when it is not there, or damaged."""
    try:
        meta = Meta(**json.loads((folder / "meta.json").read_text(encoding="utf-8")))
        if (meta.format, meta.image_size, meta.channels) != (FORMAT, image_size, source.channels):
            return None
        train = _read_part(folder, "train", meta.train_images, meta)
        test = _read_part(folder, "test", meta.test_images, meta)
        mean, std = tuple(map(float, meta.mean)), tuple(map(float, meta.std))
        if len(mean) != meta.channels or len(std) != meta.channels or tuple(meta.class_names) != source.class_names:
            return None
    except (OSError, ValueError, TypeError, EOFError):
        return None
    return Dataset(source.name, train, test, source.class_names, mean, std), meta


def _write_part(folder: Path, part: str, shape: tuple[int, ...], batches: Iterator[Batch]) -> Labels:
    written = [np.zeros(0, np.int64)]
    with (
        NpyWriter(folder / f"{part}_images.npy", np.dtype(np.uint8), shape) as images,
        NpyWriter(folder / f"{part}_labels.npy", np.dtype(np.int64), ()) as labels,
    ):
        for batch in batches:
            images.append(batch.images)
            labels.append(batch.labels)
            written.append(batch.labels)
    return np.concatenate(written)


def _check_what_is_left(source: Source, train: Labels, test: Labels, unreadable: list[str]) -> None:
    """Unreadable images may be left out, but not all of a class."""
    if not unreadable:
        return
    absent = set(range(len(source.class_names))) - set(train.tolist())
    if not len(test) or absent:
        what = f"to train on for the class {source.class_names[min(absent)]!r}" if absent else "to test with"
        raise ValueError(
            f"{source.root} has no readable images {what}: {len(unreadable)} cannot be read, such as: {unreadable[0]}"
        )


def _read_part(folder: Path, part: str, count: int, meta: Meta) -> Images:
    import torch

    # Copy on write: torch is given memory that it may write to, and the file stays as it is.
    images = np.load(folder / f"{part}_images.npy", mmap_mode="c", allow_pickle=False)
    labels = np.load(folder / f"{part}_labels.npy", allow_pickle=False)
    if images.dtype != np.uint8 or images.shape != (count, meta.channels, meta.image_size, meta.image_size):
        raise ValueError(f"{part}: images are {images.dtype} of shape {images.shape}")
    if labels.dtype != np.int64 or labels.shape != (count,):
        raise ValueError(f"{part}: labels are {labels.dtype} of shape {labels.shape}")
    if labels.min() < 0 or labels.max() >= len(meta.class_names):
        raise ValueError(f"{part}: labels lie in [{labels.min()}, {labels.max()}]")
    return Images(torch.from_numpy(images), torch.from_numpy(labels))
