"""Fetching a published dataset: download, verify, unpack, and verify again."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from singleshot.common.files import FolderNotUsableError, exclusive
from singleshot.common.text import print_status, quoted, unknown_name
from singleshot.data.catalogue import PUBLICATIONS, Publication, RemoteFile
from singleshot.data.fetching.check import CheckResult, ProgressCallback, check_dataset, file_fault
from singleshot.data.fetching.download import DownloadError, download_file
from singleshot.data.locations import DATA_VARIABLE, MIRROR_VARIABLE, resolve_data_root

ProgressFactory = Callable[[str, str], ProgressCallback]


def fetch_dataset(
    name: str,
    data_root: Path | None = None,
    *,
    mirror: str | None = None,
    progress: ProgressFactory = lambda title, unit: lambda done, total: None,
) -> CheckResult:
    """Download and verify a dataset, unless it is already complete. Status messages go to standard error.

    A damaged or partial copy is renamed, not deleted. ``mirror`` is the URL of a copy of the publishers' files, which
    are then downloaded from MIRROR/DATASET/FILE alone, and verified with the same checksums; by default
    $SINGLESHOT_MIRROR. ``progress`` is called with a title and a unit and returns the callback that reports the
    progress.
    """
    mirror = mirror or os.environ.get(MIRROR_VARIABLE) or None
    if mirror is not None and not mirror.startswith(("http://", "https://")):
        raise ValueError(f"the mirror must start with http:// or https://, got {quoted(mirror)}")
    if name == "digits":
        raise ValueError("digits is bundled with scikit-learn; there is nothing to download")
    if name not in PUBLICATIONS:
        raise unknown_name("dataset", name, list(PUBLICATIONS))
    published = PUBLICATIONS[name]
    root = resolve_data_root(data_root)
    message = f"waiting for another process that is fetching {name}"
    try:
        # One lock per dataset: different datasets can be fetched at the same time.
        with exclusive(root / ".fetch" / name, before_waiting=lambda: print_status(message)):
            return _fetch(published if mirror is None else _mirrored(published, mirror), root, progress)
    except FolderNotUsableError as error:
        raise ValueError(f"the data root {root} {error}; choose another with --data-root or ${DATA_VARIABLE}") from None


def _mirrored(published: Publication, mirror: str) -> Publication:
    """Return the publication with its files at MIRROR/DATASET/FILE."""
    folder = f"{mirror.rstrip('/')}/{published.name}"
    downloads = tuple(replace(file, urls=(f"{folder}/{file.name}",)) for file in published.downloads)
    return replace(published, downloads=downloads)


def _fetch(published: Publication, root: Path, progress: ProgressFactory) -> CheckResult:
    result = check_dataset(published.name, root, on_progress=progress("checking", "images"))
    if result.is_complete:
        print_status(f"{published.title} is already in {result.folder}, complete and verified")
        return result
    print_status(f"{published.title}: {published.download_bytes / 1e6:,.0f} MB, published at {published.homepage}")
    print_status(f"terms: {published.terms}")
    folder = root / published.folders[0]
    if published.is_archived:
        for remote in published.downloads:
            _fetch_archive(published, remote, root, progress(remote.name, "MB"))
    else:
        for file in result.files:
            if file.fault and file.path.exists() and file.path.is_relative_to(folder):
                _move_aside(file.path, f"is damaged ({file.fault})")
        for remote in published.downloads:
            _download(published, remote, folder / remote.name, progress(remote.name, "MB"))
    print_status("verifying")
    result = check_dataset(published.name, root, on_progress=progress("checking", "images"))
    if not result.is_complete:
        raise OSError(
            f"{published.title} was downloaded, but {result.folder or root} does not match the published dataset; "
            f"for details run: singleshot data check {published.name} --data-root {root}"
        )
    return result


def _fetch_archive(published: Publication, remote: RemoteFile, root: Path, on_progress: ProgressCallback) -> None:
    archive, folder = root / remote.name, root / published.folders[0]
    is_downloaded = _download(published, remote, archive, on_progress)
    for leftover in root.glob(f".{archive.name}.*"):  # of a killed process
        shutil.rmtree(leftover, ignore_errors=True)
    print_status(f"unpacking {archive.name} to {folder}")
    with tempfile.TemporaryDirectory(dir=root, prefix=f".{archive.name}.") as temporary:
        # The checksum was verified. Still, neither of these writes outside of the folder.
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zip_file:
                zip_file.extractall(temporary)
        else:
            with tarfile.open(archive) as tar_file:
                tar_file.extractall(temporary, filter="data")
        if folder.exists():
            _move_aside(folder, "is damaged or incomplete")
        (Path(temporary) / folder.name).rename(folder)
    if is_downloaded:  # and not put there by the user
        archive.unlink()


def _download(published: Publication, remote: RemoteFile, target: Path, on_progress: ProgressCallback) -> bool:
    """Download from the first URL that works. Return False if the file is already there."""
    if target.exists():
        fault = file_fault(target, remote.size, remote.checksum)
        if fault is None:
            return False
        _move_aside(target, f"is damaged ({fault})")
    failures = []
    for url in remote.urls:
        print_status(f"downloading {url}")
        try:
            download_file(url, target, size=remote.size, checksum=remote.checksum, on_progress=on_progress)
        except DownloadError as error:
            failures.append(str(error))
        else:
            return True
    raise DownloadError(
        f"{'; '.join(failures)}. To download it manually, save {remote.urls[0]} as {target} "
        f"and run singleshot data fetch {published.name} again"
    )


def _move_aside(path: Path, reason: str) -> Path:
    """Rename to an unused name."""
    number = 1
    while (aside := path.with_name(f"{path.name}.old-{number}")).exists():
        number += 1
    print_status(f"{path} {reason}; kept as {aside}")
    return path.rename(aside)
