"""``singleshot data list|check|fetch``: which data sets there are, whether they are sound, and how to get them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import FlagCreatePairsOff, Positional, arg, configure
from tyro.extras import SubcommandApp

if TYPE_CHECKING:
    from singleshot.data.published.check import CheckResult

MOST_NAMED = 10  # unreadable images that are named one by one

data_app = SubcommandApp()

Name = Annotated[Positional[str], arg(metavar="NAME")]
DataRoot = Annotated[Path | None, arg(metavar="DIR")]
AsJson = Annotated[bool, arg(name="json")]


@data_app.command(name="list")
@configure(FlagCreatePairsOff)  # --json needs no --no-json beside it
def list_datasets(data_root: DataRoot = None, as_json: AsJson = False) -> None:
    """List the data sets that have a name, and say which of them are here. Any folder of images by class works too.

    Example: singleshot data list

    Args:
        data_root: the folder of all data sets. By default $SINGLESHOT_DATA, then the user's cache.
        as_json: print everything that is known as JSON.
    """
    from singleshot.data import locations
    from singleshot.data.published.check import find_dataset
    from singleshot.data.published.publishers import PUBLICATIONS

    root = locations.data_root(data_root)
    rows: list[dict[str, Any]] = [
        {
            "name": "digits",
            "title": "handwritten digits",
            "classes": 10,
            "images": 1_797,
            "download_bytes": 0,
            "folder": "comes with scikit-learn",
            "terms": "BSD licence",
            "homepage": "https://scikit-learn.org/",
        }
    ]
    for name, published in PUBLICATIONS.items():
        found = find_dataset(name, root)
        rows.append(
            {
                "name": name,
                "title": published.title,
                "classes": published.classes,
                "images": published.train_images + published.test_images,
                "download_bytes": published.download_bytes,
                "folder": str(found[0]) if found else None,
                "terms": published.terms,
                "homepage": published.homepage,
            }
        )
    rows.sort(key=lambda row: row["name"])
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    _print_table(rows)
    print(f"\nThe data root is {root}.")
    print("singleshot data fetch NAME downloads one, singleshot data check NAME verifies it.")


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console = Console(width=1000)  # a file or a pipe has no edge to wrap at
    table = Table(box=None, pad_edge=False)
    table.add_column("name", no_wrap=True)
    for column in ("classes", "images", "download"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("where", overflow="fold")
    for row in rows:
        size = f"{row['download_bytes'] / 1e6:.0f} MB" if row["download_bytes"] else "none"
        where = Text(row["folder"] or "not here")  # a path may hold what rich would take for markup
        table.add_row(row["name"], f"{row['classes']:,}", f"{row['images']:,}", size, where)
    console.print(table)


@data_app.command(name="check")
@configure(FlagCreatePairsOff)
def check(name: Name, data_root: DataRoot = None, as_json: AsJson = False) -> None:
    """Verify a data set: every file against its published size and checksum, and that every image can be read.

    Ends with 0 when all is well, with 1 when something is missing or damaged.

    Example: singleshot data check cifar100 --data-root DIR

    Args:
        name: a data set of `singleshot data list`, or a folder of images by class.
        data_root: the folder of all data sets. By default $SINGLESHOT_DATA, then the user's cache.
        as_json: print everything that was found as JSON.
    """
    from singleshot.cli.display import bars
    from singleshot.data.published.check import check_dataset

    with bars() as shown:
        result = check_dataset(name, data_root, on_progress=shown.images("checking"))
    print(json.dumps(result.to_dict(), indent=2) if as_json else "\n".join(_report(result)))
    if not result.is_ok:
        sys.exit(1)


def _report(result: CheckResult) -> list[str]:
    """What the check found, line by line."""
    from singleshot.data.published.publishers import PUBLICATIONS

    fetch = f"singleshot data fetch {result.name}"
    if result.folder is None:
        places = "\n".join(f"  {folder}" for folder in result.looked_at)
        return [f"{result.name} is not here. Looked at:\n{places}", f"What to do: {fetch}"]
    lines = [f"{result.name} ({result.layout}) in {result.folder}"]
    lines += [f"  {file.path.name}: {file.fault or 'ok'}" for file in result.files]
    if result.train:
        for part, counts in (("training", result.train), ("test", result.test)):
            few, many = min(counts.values()), max(counts.values())
            each = f"{few:,}" if few == many else f"{few:,} to {many:,}"
            lines.append(f"  {sum(counts.values()):,} {part} images, {each} in each of {len(counts)} classes")
    if result.unreadable:
        lines.append(f"  {len(result.unreadable):,} images cannot be read:")
        lines += [f"    {reason}" for reason in result.unreadable[:MOST_NAMED]]
        if len(result.unreadable) > MOST_NAMED:
            lines.append("    ... (--json names them all)")
    if result.fault:
        lines.append(f"  cannot be read: {result.fault}")
    if result.is_complete:
        return [*lines, "All is well."]
    if result.is_ok:
        return [*lines, f"All is well, but it is a subset: {' and '.join(result.missing_images)}."]
    if result.name in PUBLICATIONS:
        return [*lines, f"It is damaged. What to do: {fetch} (what is here is kept, under another name)"]
    return [*lines, "What to do: replace or remove what is named above."]


@data_app.command(name="fetch")
def fetch(name: Name, data_root: DataRoot = None) -> None:
    """Download a data set from its publisher, verify it and unpack it. Interrupted, the same command continues.

    Nothing is downloaded when it is there already; a damaged or partial copy is kept, under another name.

    Example: singleshot data fetch cifar100 --data-root DIR

    Args:
        name: a data set of `singleshot data list`.
        data_root: the folder of all data sets. By default $SINGLESHOT_DATA, then the user's cache.
    """
    from singleshot.cli.display import bars
    from singleshot.data.locations import tell
    from singleshot.data.published.fetch import fetch_dataset

    with bars() as shown:
        checked = shown.images("checking")
        result = fetch_dataset(name, data_root, say=tell, on_download=shown.bytes, on_check=checked)
    print(f"{name} is in {result.folder}")
