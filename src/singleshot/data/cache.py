"""On-disk cache of decoded datasets: decoded once, memory-mapped afterwards."""

from __future__ import annotations

import errno
import hashlib
import json
import re
import shutil
import warnings
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
import torch

from singleshot.common.files import FolderNotUsableError, exclusive, write_text
from singleshot.common.npy import NpyWriter
from singleshot.common.text import print_status
from singleshot.data.decoding import channel_statistics
from singleshot.data.image_source import ImageSource
from singleshot.data.images import Dataset, Images
from singleshot.data.locations import CACHE_VARIABLE, decoded_root

FORMAT = 1  # increase when the same files would be decoded to different pixels or stored differently
MAX_EXAMPLES = 5  # unreadable images listed by name
_ELSEWHERE = f"set ${CACHE_VARIABLE} to another folder"


class Meta(msgspec.Struct, frozen=True):
    """The content of ``meta.json``."""

    root: str  # the folder of the source files
    mean: list[float]
    std: list[float]
    unreadable: int  # number of images that were skipped
    unreadable_examples: list[str]


class UnreadableImagesWarning(UserWarning):
    """Unreadable images were skipped.

    >>> import warnings
    >>> from singleshot.data import load_dataset
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", UnreadableImagesWarning)
    ...     dataset = load_dataset("digits", skip_unreadable=True)
    """


def load_source(source: ImageSource, image_size: int, *, skip_unreadable: bool = False) -> Dataset:
    """Load a dataset from the cache, decoding it first if needed."""
    folder = decoded_root() / f"{re.sub(r'[^A-Za-z0-9_-]+', '_', source.name)[:80] or 'folder'}-{image_size}"
    entry = folder / _fingerprint(source, image_size)
    found = _read(entry, source, image_size)
    if found is None:
        message = f"waiting for another process that is decoding {source.name}"
        try:
            with exclusive(folder, before_waiting=lambda: print_status(message)):
                found = _read(entry, source, image_size)  # the other process may have written it
                if found is None:
                    _build(entry, source, image_size)
                    found = _read(entry, source, image_size)
        except FolderNotUsableError as error:
            raise ValueError(f"the cache folder {folder} {error}; {_ELSEWHERE}") from None
        if found is None:
            raise OSError(f"{entry} was written but cannot be read back")
    dataset, meta = found
    if meta.unreadable:
        total = len(dataset.train) + len(dataset.test) + meta.unreadable
        count = f"{meta.unreadable:,} of {total:,} images in {meta.root}"
        more = meta.unreadable - len(meta.unreadable_examples)
        listed = "; ".join(meta.unreadable_examples) + (f"; and {more} more" if more else "")
        if not skip_unreadable:
            advice = "Repair or remove them, or skip them with --skip-unreadable"
            raise ValueError(f"{count} cannot be read: {listed}. {advice}")
        warnings.warn(f"skipped {count}: {listed}", UnreadableImagesWarning, stacklevel=3)
    return dataset


def _fingerprint(source: ImageSource, image_size: int) -> str:
    """Hash the format, the image size, and the location, names, sizes and modification times of the files."""
    digest = hashlib.sha256(repr((FORMAT, str(source.root.resolve()), image_size)).encode())
    for path in source.files:
        status = path.stat() if path.exists() else path.lstat()  # a link to nothing
        relative = str(path).removeprefix(str(source.root))  # relative_to() is much slower
        digest.update(repr((relative, status.st_size, status.st_mtime_ns)).encode())
    return digest.hexdigest()[:16]


def _read(entry: Path, source: ImageSource, image_size: int) -> tuple[Dataset, Meta] | None:
    """Map the images of a cache entry. Return None if the entry is missing or damaged."""
    try:
        meta = _read_meta(entry)
        shape = (len(meta.mean), image_size, image_size)
        if not len(meta.mean) == len(meta.std) == source.channels:
            return None
        train, test = (_read_split(entry, split, shape, len(source.class_names)) for split in ("train", "test"))
    except (OSError, ValueError, TypeError, EOFError):
        return None
    return Dataset(source.name, train, test, source.class_names, tuple(meta.mean), tuple(meta.std)), meta


def _read_meta(entry: Path) -> Meta:
    # json, not msgspec: names of files that are not valid UTF-8 contain surrogates, which msgspec refuses.
    return msgspec.convert(json.loads((entry / "meta.json").read_bytes()), Meta)


def _read_split(entry: Path, split: str, shape: tuple[int, ...], classes: int) -> Images:
    # Copy on write: torch requires writable memory, and the file must not change.
    images = np.load(entry / f"{split}_images.npy", mmap_mode="c", allow_pickle=False)
    labels = np.load(entry / f"{split}_labels.npy", allow_pickle=False)
    expected = (np.uint8, shape, np.int64, images.shape[:1])
    if (images.dtype, images.shape[1:], labels.dtype, labels.shape) != expected:
        raise ValueError(f"{split}: {images.dtype} {images.shape} and {labels.dtype} {labels.shape}")
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(f"{split}: labels in [{labels.min()}, {labels.max()}]")
    return Images(torch.from_numpy(images), torch.from_numpy(labels))


def _build(entry: Path, source: ImageSource, image_size: int) -> None:
    """Decode into a temporary folder and rename it to ``entry``. The caller holds the lock of the parent folder."""
    for leftover in entry.parent.glob(".building-*"):  # of a killed process
        shutil.rmtree(leftover)
    building = entry.parent / f".building-{entry.name}"
    try:
        building.mkdir()
        _decode(building, source, image_size)
        if entry.exists():  # it is damaged
            shutil.rmtree(entry)
        building.rename(entry)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            reason = f"decoding {source.name}: {error.strerror}; free some space, or {_ELSEWHERE}"
            raise OSError(error.errno, reason, str(entry.parent)) from None
        raise
    finally:
        shutil.rmtree(building, ignore_errors=True)
    _remove_outdated(entry, source)


def _decode(folder: Path, source: ImageSource, image_size: int) -> None:
    """Decode a source into a folder, one batch at a time."""
    from rich.console import Console
    from rich.progress import Progress

    seen: dict[str, set[int]] = {"train": set(), "test": set()}
    unreadable: list[str] = []
    shape = (source.channels, image_size, image_size)
    if source.image_files:
        print_status(f"decoding {source.image_files:,} images of {source.name}; this is done once")
    console = Console(stderr=True)
    is_quiet = source.image_files is None or not console.is_terminal
    with Progress(console=console, disable=is_quiet) as progress:
        task = progress.add_task("decoding", total=source.image_files)
        for split, read_batches in (("train", source.train), ("test", source.test)):
            with (
                NpyWriter(folder / f"{split}_images.npy", np.dtype(np.uint8), shape) as images,
                NpyWriter(folder / f"{split}_labels.npy", np.dtype(np.int64), ()) as labels,
            ):
                for batch in read_batches(image_size):
                    images.append(batch.images)
                    labels.append(batch.labels)
                    seen[split].update(batch.labels.tolist())
                    unreadable += batch.unreadable
                    progress.advance(task, len(batch.labels) + len(batch.unreadable))
    absent = [name for label, name in enumerate(source.class_names) if label not in seen["train"]]
    if unreadable and (absent or not seen["test"]):
        what = f"training images for class {absent[0]!r}" if absent else "test images"
        raise ValueError(
            f"{source.root} has no readable {what}: {len(unreadable)} images cannot be read, such as: {unreadable[0]}"
        )
    root = str(source.root.resolve())
    mean, std = channel_statistics(np.load(folder / "train_images.npy", mmap_mode="r"))
    meta = Meta(root, mean, std, len(unreadable), unreadable[:MAX_EXAMPLES])
    write_text(folder / "meta.json", json.dumps(msgspec.structs.asdict(meta), indent=2))


def _remove_outdated(entry: Path, source: ImageSource) -> None:
    """Remove entries that were decoded from an earlier state of the same folder."""
    for other in entry.parent.iterdir():
        with suppress(OSError, ValueError, TypeError):
            if other != entry and _read_meta(other).root == str(source.root.resolve()):
                shutil.rmtree(other, ignore_errors=True)
