"""``singleshot data list|check|fetch``: list, verify and download datasets."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg
from tyro.extras import SubcommandApp

from singleshot.cli.options import AsJson
from singleshot.common.text import printable

if TYPE_CHECKING:
    from singleshot.data.fetching.check import CheckResult

MAX_LISTED = 10  # unreadable images

data_app = SubcommandApp()

_NAME_HELP = "a dataset of `singleshot data list`"
Name = Annotated[Positional[str], arg(metavar="NAME", help=f"{_NAME_HELP}.")]
NameOrFolder = Annotated[Positional[str], arg(metavar="NAME", help=f"{_NAME_HELP}, or a folder of images by class.")]
_ROOT_HELP = "the folder of all datasets. By default $SINGLESHOT_DATA, then the user's cache."
DataRoot = Annotated[Path | None, arg(metavar="DIR", help=_ROOT_HELP)]
_MIRROR_HELP = "download URL/NAME/FILE instead of the publisher's files. By default $SINGLESHOT_MIRROR."
Mirror = Annotated[str | None, arg(metavar="URL", help=_MIRROR_HELP)]
Json = Annotated[AsJson, arg(help="print all details as JSON.")]

_DIGITS = {
    "name": "digits",
    "title": "handwritten digits",
    "classes": 10,
    "images": 1_797,
    "download_bytes": 0,
    "folder": "bundled with scikit-learn",
    "terms": "BSD licence",
    "homepage": "https://scikit-learn.org/",
}


@data_app.command(name="list")
def list_datasets(data_root: DataRoot = None, as_json: Json = False) -> None:
    """List the known datasets and where they are stored. Any folder of images by class can be used as well.

    Example: singleshot data list
    """
    from singleshot.data.locations import resolve_data_root

    root = resolve_data_root(data_root)
    rows = dataset_rows(root)
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'name':<14}{'classes':>8}{'images':>9}{'download':>10}  folder")
    for row in rows:
        size = f"{row['download_bytes'] / 1e6:.0f} MB" if row["download_bytes"] else "none"
        folder = printable(row["folder"] or "not downloaded")
        print(f"{row['name']:<14}{row['classes']:>8,}{row['images']:>9,}{size:>10}  {folder}")
    print(f"\nThe data root is {root}.")
    print("Download a dataset with singleshot data fetch NAME, verify it with singleshot data check NAME.")


def dataset_rows(root: Path) -> list[dict[str, Any]]:
    """Return the facts of every known dataset, by name; the folder is None if it was not downloaded."""
    from singleshot.data.catalogue import PUBLICATIONS
    from singleshot.data.locations import find_dataset

    rows: list[dict[str, Any]] = [_DIGITS]
    for published in PUBLICATIONS.values():
        found = find_dataset(published, root)
        facts = {field: getattr(published, field) for field in _DIGITS if field != "folder"}
        rows.append(facts | {"folder": str(found[0]) if found else None})
    return sorted(rows, key=lambda row: row["name"])


@data_app.command(name="check")
def check(name: NameOrFolder, data_root: DataRoot = None, as_json: Json = False) -> None:
    """Verify a dataset: the size and checksum of every file, and that every image can be read.

    The exit code is 0 if no fault was found, and 1 if something is missing or damaged.

    Example: singleshot data check cifar100 --data-root DIR
    """
    from singleshot.cli.display import bars
    from singleshot.data.fetching.check import check_dataset

    with bars() as bar:
        result = check_dataset(name, data_root, on_progress=bar("checking", "images"))
    print(json.dumps(result.to_dict(), indent=2) if as_json else printable("\n".join(_report(result)), keep="\n"))
    if not result.is_ok:
        sys.exit(1)


def _report(result: CheckResult) -> list[str]:
    """Return the result of a check as lines of text."""
    from singleshot.data.catalogue import PUBLICATIONS

    fetch = f"singleshot data fetch {result.name}"
    if result.folder is None:
        folders = "\n".join(f"  {folder}" for folder in result.looked_at)
        return [f"{result.name} was not found in:\n{folders}", f"Download it with: {fetch}"]
    lines = [f"{result.name} ({result.layout}) in {result.folder}"]
    lines += [f"  {file.path.name}: {file.fault or 'ok'}" for file in result.files]
    if result.train:
        for split, counts in (("training", result.train), ("test", result.test)):
            least, most = min(counts.values()), max(counts.values())
            each = f"{least:,}" if least == most else f"{least:,} to {most:,}"
            lines.append(f"  {sum(counts.values()):,} {split} images, {each} in each of {len(counts)} classes")
    if result.unreadable:
        lines.append(f"  {len(result.unreadable):,} images cannot be read:")
        lines += [f"    {reason}" for reason in result.unreadable[:MAX_LISTED]]
        if len(result.unreadable) > MAX_LISTED:
            lines.append("    ... (--json lists all of them)")
    if result.fault:
        lines.append(f"  cannot be read: {result.fault}")
    if result.is_complete:
        return [*lines, "No faults found."]
    if result.is_ok:
        return [*lines, f"No faults found, but it is a subset: {' and '.join(result.missing_images)}."]
    if result.name in PUBLICATIONS:
        return [*lines, f"The dataset is damaged. Download it again with: {fetch} (the damaged copy is renamed)"]
    return [*lines, "Repair or remove the files named above."]


@data_app.command(name="fetch")
def fetch(name: Name, data_root: DataRoot = None, mirror: Mirror = None) -> None:
    """Download, verify and unpack a dataset. An interrupted download is resumed by the same command.

    Nothing is downloaded if the dataset is already complete. A damaged or partial copy is renamed, not deleted.

    Example: singleshot data fetch cifar100 --data-root DIR
    """
    from singleshot.cli.display import bars
    from singleshot.data.fetching.fetch import fetch_dataset

    with bars() as bar:
        result = fetch_dataset(name, data_root, mirror=mirror, progress=bar)
    print(f"{name} is in {result.folder}")
