"""Bringing a published data set here: download, verify, unpack, and verify what was unpacked."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from singleshot.common.files import FolderNotUsableError, exclusive
from singleshot.data import locations
from singleshot.data.published.archive import extract
from singleshot.data.published.check import Advance, CheckResult, check_dataset, file_fault
from singleshot.data.published.download import DownloadError, Progress, download
from singleshot.data.published.publishers import Download, Publication, publication

Say = Callable[[str], None]
Watch = Callable[[str], Progress]
"""Given the name of a file, gives what is to be told of its progress."""


def fetch_dataset(
    name: str, data_root: Path | None = None, *, say: Say, on_download: Watch, on_check: Advance | None = None
) -> CheckResult:
    """Have a data set in the data root, complete and verified; nothing is downloaded where it is already.

    Nothing that was there is deleted: a damaged or partial copy is moved aside, under another name.

    Args:
        name: the data set.
        data_root: the folder of all data sets; None takes $SINGLESHOT_DATA, then the user's cache.
        say: told in a sentence what happens.
        on_download: for each file, what to tell of its progress.
        on_check: told how many images have been read while checking.
    """
    published = publication(name)
    root = locations.data_root(data_root)
    try:
        # A folder of its own to hold: two sets can be fetched at once, one of them only by one process.
        with exclusive(root / ".fetch" / name, before_waiting=lambda: say("another process fetches it; waiting")):
            return _fetch(published, root, say, on_download, on_check)
    except FolderNotUsableError as error:
        raise ValueError(
            f"the data root {root} {error}; choose another with --data-root or ${locations.DATA_VARIABLE}"
        ) from None


def _fetch(published: Publication, root: Path, say: Say, on_download: Watch, on_check: Advance | None) -> CheckResult:
    there = check_dataset(published.name, root, on_progress=on_check)
    if there.is_complete:
        say(f"{published.title} is in {there.folder} already, complete and as published")
        return there
    say(f"{published.title}: {published.download_bytes / 1e6:,.0f} MB from {published.homepage}")
    say(f"terms: {published.terms}")
    if published.is_archived:
        _fetch_archives(published, root, say, on_download)
    else:
        for file in there.files:
            if file.fault and not file.is_missing and file.path.is_relative_to(root / published.folder):
                say(f"{file.path.name} is damaged ({file.fault}); kept as {_move_aside(file.path)}")
        for wanted in published.downloads:
            _download(published, wanted, root / published.folder / wanted.name, say, on_download)
    say("checking what came")
    result = check_dataset(published.name, root, on_progress=on_check)
    if not result.is_complete:
        raise OSError(
            f"{published.title} was downloaded, but the check of {result.folder or root} still finds faults; "
            f"singleshot data check {published.name} --data-root {root} lists them"
        )
    return result


def _fetch_archives(published: Publication, root: Path, say: Say, on_download: Watch) -> None:
    for wanted in published.downloads:
        archive = root / wanted.name
        was_there = archive.exists()
        if was_there and (fault := file_fault(archive, wanted.size, wanted.checksum)):
            say(f"{archive.name} is damaged ({fault}); kept as {_move_aside(archive)}")
            was_there = False
        _download(published, wanted, archive, say, on_download)
        for litter in root.glob(f".{archive.name}.*"):  # of a process that was killed; this one holds the data set
            if litter.is_dir():
                shutil.rmtree(litter, ignore_errors=True)
        folder = root / published.folder
        aside = _move_aside(folder) if folder.exists() else None
        if aside:
            say(f"{folder} is damaged or not complete; kept as {aside}")
        say(f"unpacking {archive.name} to {folder}")
        try:
            # Twice what it should hold leaves room for lists, names and rounding, and none for a bomb.
            extract(archive, root, most_bytes=2 * (published.unpacked_bytes or 0))
        except BaseException:
            if aside and not folder.exists():
                aside.rename(folder)
            raise
        if not was_there:  # one that a user has put there is theirs
            archive.unlink()


def _download(published: Publication, wanted: Download, target: Path, say: Say, on_download: Watch) -> None:
    """From the first address that gives the file."""
    failures = []
    for url in wanted.urls:
        say(f"downloading {url}")
        try:
            download(url, target, size=wanted.size, checksum=wanted.checksum, on_progress=on_download(wanted.name))
        except DownloadError as error:
            failures.append(str(error))
        else:
            return
    raise DownloadError(
        f"{'; '.join(failures)}. By hand: download {wanted.urls[0]} on any machine, put it at {target}, "
        f"and run singleshot data fetch {published.name} again"
    )


def _move_aside(path: Path) -> Path:
    """Give it another name that is free."""
    number = 1
    while (aside := path.with_name(f"{path.name}.old-{number}")).exists():
        number += 1
    return path.rename(aside)
