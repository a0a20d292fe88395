"""Where data sets are looked for, and where what was decoded from them is kept."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

DATA_VARIABLE = "SINGLESHOT_DATA"
CACHE_VARIABLE = "SINGLESHOT_CACHE"

# The folders in a data root that a publisher's archive unpacks to, or that are in common use, best first.
FOLDERS: dict[str, tuple[str, ...]] = {
    "cifar10": ("cifar-10-batches-bin", "cifar-10-batches-py"),
    "cifar100": ("cifar-100-binary", "cifar-100-python"),
    "fashion_mnist": ("fashion_mnist", "fashion_mnist/raw", "fashion-mnist", "fashion-mnist/raw"),
    "mnist": ("mnist", "mnist/raw"),
    "tiny_imagenet": ("tiny-imagenet-200",),
}

# Where packages of the operating system put a data set: Debian's dataset-fashion-mnist.
INSTALLED: dict[str, tuple[Path, ...]] = {"fashion_mnist": (Path("/usr/share/datasets/fashion-mnist"),)}


def data_root(given: Path | None = None) -> Path:
    """The folder of all data sets: the given one, else $SINGLESHOT_DATA, else one in the user's cache."""
    if given is not None:
        return Path(given).expanduser()
    return _from_environment(DATA_VARIABLE) or _user_cache() / "singleshot" / "data"


def decoded_root() -> Path:
    """The folder of decoded images: $SINGLESHOT_CACHE, else one in the user's cache."""
    return _from_environment(CACHE_VARIABLE) or _user_cache() / "singleshot" / "decoded"


def candidate_folders(name: str, root: Path) -> list[Path]:
    """The folders a published data set may lie in, best first."""
    return [root / folder for folder in FOLDERS[name]] + list(INSTALLED.get(name, ()))


def missing_dataset(name: str, looked_at: Sequence[Path]) -> ValueError:
    """The error for a data set that is in none of its folders."""
    places = ", ".join(str(folder) for folder in looked_at)
    return ValueError(
        f"the data set {name} is not there; looked at {places}. singleshot data fetch {name} downloads it; "
        f"where it is somewhere else, say so with --data-root or ${DATA_VARIABLE}"
    )


def _user_cache() -> Path:
    return _from_environment("XDG_CACHE_HOME") or Path.home() / ".cache"


def _from_environment(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value).expanduser() if value else None  # an empty variable is as good as none


@contextmanager
def decoding_progress(name: str, images: int | None) -> Iterator[Callable[[int], None]]:
    """Gives a function to call with the number of images done; silent where ``images`` is None."""
    if images is None:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        tell(f"decoding {images:,} images of {name}; this is done once")
    columns = (TextColumn("decoding {task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(name, total=images)
        yield lambda done: progress.update(task, advance=done)


def tell(message: str) -> None:
    """A line on standard error, where it is in nobody's way."""
    print(message, file=sys.stderr, flush=True)
