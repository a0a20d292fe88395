"""The shape of what is known about a published data set."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Download:
    """One file to download, with every address that serves the same bytes, best first."""

    name: str
    urls: tuple[str, ...]
    size: int
    checksum: str  # "sha256:…" or "md5:…"


@dataclass(frozen=True)
class KnownFile:
    """A file of an unpacked data set; a gzipped one is known by what it unpacks to, for packers differ."""

    name: str
    size: int | None = None
    checksum: str | None = None
    may_be_gzipped: bool = False


@dataclass(frozen=True)
class Layout:
    """One of the forms in which a data set is published, by the files that make it up."""

    name: str
    files: tuple[KnownFile, ...]


@dataclass(frozen=True)
class Publication:
    """A data set: what it holds, where it comes from, and what it looks like once it is here."""

    name: str
    title: str
    homepage: str
    terms: str
    classes: int
    train_images: int
    test_images: int
    downloads: tuple[Download, ...]
    folder: str  # in the data root; archives bring it along, single files are put into it
    layouts: tuple[Layout, ...]
    unpacked_bytes: int | None = None  # an archive that holds much more than this is not the publisher's

    @property
    def is_archived(self) -> bool:
        """Whether the download is an archive to unpack, rather than the files themselves."""
        return self.unpacked_bytes is not None

    @property
    def download_bytes(self) -> int:
        """How much there is to download."""
        return sum(download.size for download in self.downloads)
