"""Whether a file is the one that was published: its size and its checksum."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from singleshot.data import locations
from singleshot.data.published.publishers import PUBLICATIONS, KnownFile, Layout, Publication

if TYPE_CHECKING:
    from singleshot.data.source import Source


CHUNK = 2**20


def file_fault(path: Path, size: int | None, checksum: str | None) -> str | None:
    """What is wrong with a file, found beside expected, or None; a checksum is "sha256:…" or "md5:…"."""
    found = path.stat().st_size
    if size is not None and found != size:
        return size_fault(found, size)  # without reading it
    with path.open("rb") as file:
        return _content_fault(file, size, checksum)


def gzipped_fault(path: Path, size: int | None, checksum: str | None) -> str | None:
    """What is wrong with what a gzipped file unpacks to, or None."""
    try:
        with gzip.open(path) as file:
            fault = _content_fault(cast(IO[bytes], file), size, checksum)
            return f"unpacks to {fault}" if fault else None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        return f"cannot be unpacked ({error})"


def size_fault(found: int, expected: int) -> str:
    """How a wrong size is told."""
    return f"{found:,} bytes, expected {expected:,}"


def _content_fault(file: IO[bytes], size: int | None, checksum: str | None) -> str | None:
    algorithm = "md5" if checksum is None else checksum.partition(":")[0]
    digest = hashlib.new(algorithm, usedforsecurity=False)  # some publishers state nothing better than md5
    found = 0
    while chunk := file.read(CHUNK):
        found += len(chunk)
        if size is not None and found > size:  # not followed further: it may unpack without end
            return f"more than {size_fault(size, size)}"
        digest.update(chunk)
    if size is not None and found != size:
        return size_fault(found, size)
    computed = f"{algorithm}:{digest.hexdigest()}"
    return None if checksum in (None, computed) else f"checksum {computed}, expected {checksum}"


SIZE = 32  # images are read at the size that networks take
Advance = Callable[[int, "int | None"], None]
"""Called with the images read and, where there is a file for each, how many there are."""


@dataclass(frozen=True)
class FileCheck:
    """A file that belongs to a data set, and what is wrong with it."""

    path: Path
    fault: str | None = None  # "missing", or what was found and what was expected

    @property
    def is_missing(self) -> bool:
        """Whether it is not there at all."""
        return self.fault == "missing"


@dataclass(frozen=True)
class CheckResult:
    """What a check of a data set found."""

    name: str
    folder: Path | None = None  # None: the data set is not here
    layout: str | None = None
    looked_at: tuple[Path, ...] = ()
    files: tuple[FileCheck, ...] = ()
    train: dict[str, int] = field(default_factory=dict)  # images that can be read, by class
    test: dict[str, int] = field(default_factory=dict)
    published: tuple[int, int] | None = None  # training and test images there should be
    unreadable: tuple[str, ...] = ()  # images, each with the reason
    fault: str | None = None  # why the whole cannot be read

    @property
    def is_ok(self) -> bool:
        """Whether all that is here is as it should be; it may still be a part of what was published."""
        return (
            self.folder is not None
            and not self.fault
            and not self.unreadable
            and not any(file.fault for file in self.files)
        )

    @property
    def missing_images(self) -> tuple[str, ...]:
        """What a subset is a subset of: for each part that is not whole, how many of how many images it has."""
        if self.published is None or not self.train:
            return ()
        parts = (("training", self.train, self.published[0]), ("test", self.test, self.published[1]))
        return tuple(
            f"{sum(found.values()):,} of {wanted:,} {part} images"
            for part, found, wanted in parts
            if sum(found.values()) != wanted
        )

    @property
    def is_complete(self) -> bool:
        """Whether it is here, all of it, and as published."""
        return self.is_ok and not self.missing_images

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        shown = asdict(self) | {"ok": self.is_ok, "complete": self.is_complete, "subset": list(self.missing_images)}
        shown["folder"] = str(self.folder) if self.folder else None
        shown["looked_at"] = [str(folder) for folder in self.looked_at]
        shown["files"] = [{"path": str(file.path), "fault": file.fault} for file in self.files]
        return shown


def find_dataset(name: str, data_root: Path | None = None) -> tuple[Path, Layout] | None:
    """The folder in which a published data set is, whole or in part, and in which of its layouts; nothing is read."""
    best, most = None, 0
    for folder in locations.candidate_folders(name, locations.data_root(data_root)):
        for layout in PUBLICATIONS[name].layouts:
            there = sum(_path(folder, file) is not None for file in layout.files)
            if there == len(layout.files):
                return folder, layout
            if there > most:
                best, most = (folder, layout), there
    return best


def check_dataset(name: str, data_root: Path | None = None, *, on_progress: Advance | None = None) -> CheckResult:
    """Check every file and read every image of a data set, or of a folder of images by class.

    Args:
        name: a data set's name, or the path of a folder.
        data_root: the folder of all data sets; None takes $SINGLESHOT_DATA, then the user's cache.
        on_progress: told how many images have been read.
    """
    report = on_progress or (lambda done, total: None)
    if name == "digits":
        return _check_digits()
    if name in PUBLICATIONS:
        return _check_published(PUBLICATIONS[name], locations.data_root(data_root), report)
    from singleshot.data.registry import find_source

    try:
        source = find_source(name, locations.data_root(data_root))
    except ValueError as error:
        folder = Path(name).expanduser()
        if not folder.is_dir():
            raise  # a name that is none, or a folder that is not there
        return CheckResult(name, folder, "folder of images", fault=str(error))
    return _read(source, CheckResult(name, source.root, "folder of images"), report)


def _check_digits() -> CheckResult:
    import sklearn.datasets

    from singleshot.data.registry import load_dataset

    digits = load_dataset("digits")
    train, test = (Counter(part.labels.tolist()) for part in (digits.train, digits.test))
    return CheckResult(
        "digits",
        Path(sklearn.datasets.__file__).parent,
        "bundled with scikit-learn",
        train=_by_name(digits.class_names, train),
        test=_by_name(digits.class_names, test),
    )


def _check_published(published: Publication, root: Path, report: Advance) -> CheckResult:
    found = find_dataset(published.name, root)
    if found is None:
        return CheckResult(published.name, looked_at=tuple(locations.candidate_folders(published.name, root)))
    folder, layout = found
    result = CheckResult(
        published.name,
        folder,
        layout.name,
        files=tuple(_check_file(folder, file) for file in layout.files),
        published=(published.train_images, published.test_images),
    )
    if not result.is_ok:
        return result  # reading on would tell the same again, less clearly
    from singleshot.data.registry import find_source

    try:
        source = find_source(published.name, root)
    except ValueError as error:
        return replace(result, fault=str(error))
    return _read(source, result, report)


def _path(folder: Path, file: KnownFile) -> Path | None:
    names = (file.name, f"{file.name}.gz") if file.may_be_gzipped else (file.name,)
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _check_file(folder: Path, file: KnownFile) -> FileCheck:
    path = _path(folder, file)
    if path is None:
        return FileCheck(folder / file.name, "missing")
    look = gzipped_fault if path.suffix == ".gz" else file_fault
    try:
        return FileCheck(path, look(path, file.size, file.checksum))
    except PermissionError as error:
        return FileCheck(path, f"cannot be read ({error.strerror})")


def _read(source: Source, result: CheckResult, report: Advance) -> CheckResult:
    """Read all there is, for what only shows then: images that cannot be decoded, labels that are no class."""
    train: Counter[int] = Counter()
    test: Counter[int] = Counter()
    unreadable: list[str] = []
    done, fault = 0, None
    try:
        for read_part, counts in ((source.train, train), (source.test, test)):
            for batch in read_part(SIZE):
                counts.update(batch.labels.tolist())
                unreadable += batch.unreadable
                done += len(batch.labels) + len(batch.unreadable)
                report(done, source.image_files)
    except ValueError as error:
        fault = str(error)
    return replace(
        result,
        train=_by_name(source.class_names, train),
        test=_by_name(source.class_names, test),
        unreadable=tuple(unreadable),
        fault=fault,
    )


def _by_name(names: tuple[str, ...], counts: Counter[int]) -> dict[str, int]:
    return {name: counts[label] for label, name in enumerate(names)}
