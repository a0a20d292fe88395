"""Writing an .npy file piece by piece, when its length is known only at the end."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from singleshot.common.files import FolderNotUsableError, exclusive, write_text
from singleshot.data.decoding import PixelCounts
from singleshot.data.images import Dataset, Images
from singleshot.data.locations import CACHE_VARIABLE, decoded_root, decoding_progress, tell
from singleshot.data.source import Batch, Labels, Source


class NpyWriter:
    """An .npy file that grows by whole items of one shape.

    Written, not mapped: on a full disk a write is an error that can be told, a mapped page a signal that kills.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], item_shape: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.item_shape = item_shape
        self.count = 0
        self.file = path.open("wb")

    def __enter__(self) -> NpyWriter:
        self._write_header()
        self.start = self.file.tell()
        return self

    def append(self, items: np.ndarray[Any, Any]) -> None:
        """Add items (N, *item_shape)."""
        if items.dtype != self.dtype or items.shape[1:] != self.item_shape:
            raise ValueError(f"items are {items.dtype} {items.shape[1:]}, expected {self.dtype} {self.item_shape}")
        self.file.write(np.ascontiguousarray(items).data)
        self.count += len(items)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.file:
            if kind is None:
                self.file.seek(0)
                self._write_header()  # numpy leaves room in it for any length, so that it ends where it did
                if self.file.tell() != self.start:
                    raise RuntimeError("the header of an .npy file changed its length")
                self.file.flush()
                os.fsync(self.file.fileno())

    def _write_header(self) -> None:
        np.lib.format.write_array_header_1_0(
            self.file,
            {"descr": self.dtype.str, "fortran_order": False, "shape": (self.count, *self.item_shape)},
        )


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


BUILDING = ".building-"


class UnreadableImagesWarning(UserWarning):
    """Some images were left out, because they cannot be read; ``count`` says how many."""

    def __init__(self, message: str, count: int) -> None:
        super().__init__(message)
        self.count = count


def load_source(source: Source, image_size: int, *, skip_unreadable: bool = False) -> Dataset:
    """The data set, decoded now or before. Unreadable images are an error, or left out with a warning."""
    shelf = decoded_root() / f"{_file_name(source.name)}-{image_size}"
    place = shelf / _fingerprint(source, image_size)
    found = read_decoded(place, source, image_size)
    if found is None:
        try:
            with exclusive(shelf, before_waiting=lambda: tell(f"another process is decoding {source.name}; waiting")):
                # Whoever was waited for may have done the work.
                found = read_decoded(place, source, image_size) or _decode(place, source, image_size)
        except FolderNotUsableError as error:
            raise ValueError(f"{shelf}, for decoded images, {error}; {_ELSEWHERE}") from None
    dataset, meta = found
    if meta.unreadable:
        _report_unreadable(meta, skip_unreadable)
    return dataset


def _decode(place: Path, source: Source, image_size: int) -> tuple[Dataset, Meta]:
    """Decode beside the place, then rename. The caller holds the shelf, so unfinished work there is litter."""
    for litter in place.parent.glob(f"{BUILDING}*"):
        shutil.rmtree(litter)
    building = place.parent / f"{BUILDING}{place.name}"
    try:
        building.mkdir()
        write_decoded(building, source, image_size)
        if place.exists():  # damaged, or it would have been taken
            shutil.rmtree(place)
        building.rename(place)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            reason = f"decoding {source.name}: {error.strerror}; make room, or {_ELSEWHERE}"
            raise OSError(error.errno, reason, str(place.parent)) from None
        raise
    finally:
        shutil.rmtree(building, ignore_errors=True)
    _forget_older(place, source)
    found = read_decoded(place, source, image_size)
    if found is None:
        raise OSError(f"{place} was written but cannot be read back")
    return found


def _report_unreadable(meta: Meta, skip_unreadable: bool) -> None:
    total = meta.train_images + meta.test_images + meta.unreadable
    examples = "; ".join(meta.unreadable_examples)
    more = meta.unreadable - len(meta.unreadable_examples)
    listed = f"{examples}{f'; and {more} more' if more else ''}"
    if not skip_unreadable:
        raise ValueError(
            f"{meta.unreadable:,} of {total:,} images in {meta.root} cannot be used: {listed}. "
            "Mend or remove them, or leave them out with --skip-unreadable"
        )
    message = f"left out {meta.unreadable:,} of {total:,} images in {meta.root}: {listed}"
    warnings.warn(UnreadableImagesWarning(message, meta.unreadable), stacklevel=4)


def _fingerprint(source: Source, image_size: int) -> str:
    """Changes with the files' names, sizes and times, with where they are, the image size and the format."""
    digest = hashlib.sha256(repr((FORMAT, str(source.root.resolve()), image_size)).encode())
    for path in source.files:
        status = path.stat()
        relative = str(path).removeprefix(str(source.root))  # relative_to() takes longer than all the rest
        digest.update(repr((relative, status.st_size, status.st_mtime_ns)).encode())
    return digest.hexdigest()[:16]


def _forget_older(place: Path, source: Source) -> None:
    """Remove what was decoded from the same folder before it changed; whoever has it mapped keeps it."""
    for older in place.parent.iterdir():
        if older == place or not older.is_dir():
            continue
        try:
            root = json.loads((older / "meta.json").read_text(encoding="utf-8"))["root"]
        except (OSError, ValueError, TypeError, KeyError):
            continue
        if root == str(source.root.resolve()):
            shutil.rmtree(older, ignore_errors=True)


def _file_name(name: str) -> str:
    """The name with nothing in it that a path could stumble over."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:80] or "folder"


_ELSEWHERE = f"set ${CACHE_VARIABLE} to another folder"
