"""Where datasets and decoded images are stored."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

from singleshot.data.catalogue import DatasetLayout, KnownFile, Publication

DATA_VARIABLE = "SINGLESHOT_DATA"
CACHE_VARIABLE = "SINGLESHOT_CACHE"
MIRROR_VARIABLE = "SINGLESHOT_MIRROR"

# Folders used by system packages, such as Debian's dataset-fashion-mnist.
INSTALLED: dict[str, tuple[Path, ...]] = {"fashion_mnist": (Path("/usr/share/datasets/fashion-mnist"),)}


def resolve_data_root(data_root: Path | None = None) -> Path:
    """Return the folder of all datasets: the given one, else $SINGLESHOT_DATA, else one in the user's cache."""
    if data_root is not None:
        return Path(data_root).expanduser()
    return _from_environment(DATA_VARIABLE) or _user_cache() / "singleshot" / "data"


def decoded_root() -> Path:
    """Return the folder of decoded images: $SINGLESHOT_CACHE, else one in the user's cache."""
    return _from_environment(CACHE_VARIABLE) or _user_cache() / "singleshot" / "decoded"


def candidate_folders(published: Publication, root: Path) -> list[Path]:
    """Return the folders that may contain a published dataset, preferred first."""
    return [root / folder for folder in published.folders] + list(INSTALLED.get(published.name, ()))


def find_dataset(published: Publication, root: Path) -> tuple[Path, DatasetLayout] | None:
    """Return the folder and layout of a published dataset, complete or partial, without reading any file."""

    def share(candidate: tuple[Path, DatasetLayout]) -> float:
        folder, layout = candidate
        return sum(find_file(folder, file) is not None for file in layout.files) / len(layout.files)

    best = max(product(candidate_folders(published, root), published.layouts), key=share)
    return best if share(best) else None


def find_file(folder: Path, file: KnownFile) -> Path | None:
    """Return the path of a file of a dataset, plain or gzipped, or None."""
    names = (file.name, f"{file.name}.gz") if file.may_be_gzipped else (file.name,)
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _user_cache() -> Path:
    return _from_environment("XDG_CACHE_HOME") or Path.home() / ".cache"


def _from_environment(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value).expanduser() if value else None  # an empty variable counts as unset
