"""Verification of datasets: sizes and checksums of files, and whether every image can be decoded."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from singleshot.data.catalogue import PUBLICATIONS, Publication
from singleshot.data.image_source import ImageSource
from singleshot.data.locations import candidate_folders, find_dataset, find_file, resolve_data_root
from singleshot.data.registry import find_source, load_dataset

CHUNK = 2**20
IMAGE_SIZE = 32  # for test decoding

ProgressCallback = Callable[[int, "int | None"], None]
"""Called with the amount done and the total, or None if the total is unknown."""


@dataclass(frozen=True)
class FileCheck:
    """A file of a dataset and its fault."""

    path: Path
    fault: str | None = None  # "missing", or what was found and what was expected


@dataclass(frozen=True)
class CheckResult:
    """The result of checking a dataset."""

    name: str
    folder: Path | None = None  # None if the dataset was not found
    layout: str | None = None
    looked_at: tuple[Path, ...] = ()
    files: tuple[FileCheck, ...] = ()
    train: dict[str, int] = field(default_factory=dict)  # number of readable images by class
    test: dict[str, int] = field(default_factory=dict)
    published: tuple[int, int] | None = None  # number of published training and test images
    unreadable: tuple[str, ...] = ()  # the reason for each unreadable image
    fault: str | None = None  # why the dataset cannot be read

    @property
    def is_ok(self) -> bool:
        """Whether no fault was found. The dataset may still be a subset of the published one."""
        faults = (self.fault, self.unreadable, *(file.fault for file in self.files))
        return self.folder is not None and not any(faults)

    @property
    def missing_images(self) -> tuple[str, ...]:
        """For each incomplete split of a subset, the number of images found and published."""
        if self.published is None or not self.train:
            return ()
        splits = (("training", self.train, self.published[0]), ("test", self.test, self.published[1]))
        return tuple(
            f"{sum(found.values()):,} of {expected:,} {split} images"
            for split, found, expected in splits
            if sum(found.values()) != expected
        )

    @property
    def is_complete(self) -> bool:
        """Whether the dataset equals the published one."""
        return self.is_ok and not self.missing_images

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON types."""
        fields: dict[str, Any] = msgspec.to_builtins(self, enc_hook=str)
        return fields | {"ok": self.is_ok, "complete": self.is_complete, "subset": list(self.missing_images)}


def file_fault(path: Path, size: int | None, checksum: str | None, *, gzipped: bool = False) -> str | None:
    """Compare a file with its expected size and checksum ("sha256:…" or "md5:…"). Return None if they match.

    If it is ``gzipped``, compare its decompressed content.
    """
    found = path.stat().st_size
    if not gzipped and size not in (None, found):  # no need to read it
        return f"{found:,} bytes, expected {size:,}"
    algorithm = "md5" if checksum is None else checksum.partition(":")[0]
    digest = hashlib.new(algorithm, usedforsecurity=False)  # some publishers provide only md5
    verb, found = "decompresses to " if gzipped else "", 0
    try:
        with gzip.open(path) if gzipped else path.open("rb") as file:
            while chunk := file.read(CHUNK):
                found += len(chunk)
                if size is not None and found > size:  # it may decompress to any length
                    return f"{verb}more than the expected {size:,} bytes"
                digest.update(chunk)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        return f"cannot be decompressed ({error})"
    except PermissionError as error:
        return f"cannot be read ({error.strerror})"
    if size not in (None, found):
        return f"{verb}{found:,} bytes, expected {size:,}"
    computed = f"{algorithm}:{digest.hexdigest()}"
    return None if checksum in (None, computed) else f"{verb}checksum {computed}, expected {checksum}"


def check_dataset(
    name: str, data_root: Path | None = None, *, on_progress: ProgressCallback = lambda done, total: None
) -> CheckResult:
    """Check every file and decode every image of a published dataset or of a folder of images by class.

    ``on_progress`` is called with the number of images read and, if each image has its own file, their total.
    """
    if name == "digits":
        return _check_digits()
    root, folder = resolve_data_root(data_root), Path(name).expanduser()
    result = CheckResult(name, folder, "folder of images")
    if name in PUBLICATIONS:
        result = _check_files(PUBLICATIONS[name], root)
        if not result.is_ok:
            return result  # reading the images would only repeat the faults
    try:
        source = find_source(name, root)
    except ValueError as error:
        if name not in PUBLICATIONS and not folder.is_dir():
            raise
        return replace(result, fault=str(error))
    return _check_images(source, result, on_progress)


def _check_digits() -> CheckResult:
    import sklearn.datasets

    digits = load_dataset("digits")
    train, test = (Counter(map(str, sorted(split.labels.tolist()))) for split in (digits.train, digits.test))
    folder = Path(sklearn.datasets.__file__).parent
    return CheckResult("digits", folder, "bundled with scikit-learn", train=train, test=test)


def _check_files(published: Publication, root: Path) -> CheckResult:
    found = find_dataset(published, root)
    if found is None:
        return CheckResult(published.name, looked_at=tuple(candidate_folders(published, root)))
    folder, layout = found
    files = []
    for file in layout.files:
        path = find_file(folder, file)
        fault = "missing" if path is None else file_fault(path, file.size, file.checksum, gzipped=path.suffix == ".gz")
        files.append(FileCheck(path or folder / file.name, fault))
    counts = (published.train_images, published.test_images)
    return CheckResult(published.name, folder, layout.name, files=tuple(files), published=counts)


def _check_images(source: ImageSource, result: CheckResult, on_progress: ProgressCallback) -> CheckResult:
    """Decode all images, to find unreadable images and invalid labels."""
    train, test = (dict.fromkeys(source.class_names, 0) for _ in range(2))
    unreadable: list[str] = []
    done, fault = 0, None
    try:
        for read_batches, counts in ((source.train, train), (source.test, test)):
            for batch in read_batches(IMAGE_SIZE):
                for label in batch.labels.tolist():
                    counts[source.class_names[label]] += 1
                unreadable += batch.unreadable
                done += len(batch.labels) + len(batch.unreadable)
                on_progress(done, source.image_files)
    except ValueError as error:
        fault = str(error)
    return replace(result, train=train, test=test, unreadable=tuple(unreadable), fault=fault)
