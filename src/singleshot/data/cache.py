"""Decoding a data set once, and finding what was decoded before.

What is decoded from a set lies in a folder named by a hash of its files, so that changed files are decoded anew. It is
written beside its place and then renamed: what is in place is whole, whenever a process was killed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import shutil
import warnings
from pathlib import Path

from singleshot.data.decoded import FORMAT, Meta, read_decoded, write_decoded
from singleshot.data.images import Dataset
from singleshot.data.locations import CACHE_VARIABLE, decoded_root
from singleshot.data.progress import tell
from singleshot.data.source import Source
from singleshot.files import FolderNotUsableError, exclusive

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
