"""Published datasets: where they come from, and the sizes and checksums of their files.

The facts are in ``catalogue.json``. MNIST comes from mirrors, since its publisher no longer serves the files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec


@dataclass(frozen=True)
class RemoteFile:
    """A file to download, with the URLs that serve it, preferred first."""

    name: str
    urls: tuple[str, ...]
    size: int
    checksum: str  # "sha256:…" or "md5:…"


@dataclass(frozen=True)
class KnownFile:
    """A file of an unpacked dataset. Size and checksum are those of the decompressed content."""

    name: str
    size: int | None = None
    checksum: str | None = None
    may_be_gzipped: bool = False


@dataclass(frozen=True)
class DatasetLayout:
    """One of the versions in which a dataset is published. The readers rely on the order of the files."""

    name: str
    files: tuple[KnownFile, ...]


@dataclass(frozen=True)
class Publication:
    """A published dataset."""

    name: str
    title: str
    homepage: str
    terms: str
    classes: int
    train_images: int
    test_images: int
    folders: tuple[str, ...]  # in the data root; downloads go to the first, others are in common use
    downloads: tuple[RemoteFile, ...]
    layouts: tuple[DatasetLayout, ...]
    class_names: tuple[str, ...] = ()  # if the files do not contain them
    is_archived: bool = False

    @property
    def images(self) -> int:
        """The number of training and test images."""
        return self.train_images + self.test_images

    @property
    def download_bytes(self) -> int:
        """The total size of the downloads."""
        return sum(download.size for download in self.downloads)


_CONTENT = Path(__file__).with_name("catalogue.json").read_bytes()
PUBLICATIONS = {published.name: published for published in msgspec.json.decode(_CONTENT, type=list[Publication])}
