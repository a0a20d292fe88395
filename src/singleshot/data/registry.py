"""The data sets by name."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from singleshot.data import locations

if TYPE_CHECKING:
    from singleshot.data.images import Dataset
    from singleshot.data.source import Source

_NAMES = sorted([*locations.FOLDERS, "digits"])


def list_datasets() -> list[str]:
    """The names that :func:`load_dataset` knows, beside folders of images.

    >>> list_datasets()
    ['cifar10', 'cifar100', 'digits', 'fashion_mnist', 'mnist', 'tiny_imagenet']
    """
    return list(_NAMES)


def load_dataset(
    name: str, *, data_root: Path | None = None, image_size: int = 32, skip_unreadable: bool = False
) -> Dataset:
    """A data set, its images brought to one size. What has to be decoded is decoded once and kept.

    Args:
        name: one of :func:`list_datasets`, or the path of a folder with a folder of images for each class.
        data_root: the folder of all data sets; None takes $SINGLESHOT_DATA, then the user's cache.
        image_size: height and width in pixels.
        skip_unreadable: leave out images that cannot be read, with a warning that counts them, instead of refusing.
    """
    from singleshot.common.checks import check_size

    size = check_size("image_size", image_size, least=1)
    if name == "digits":  # comes with scikit-learn, needs no files
        from singleshot.data.formats.digits import digits_dataset

        return digits_dataset(size)
    from singleshot.data.cache import load_source

    return load_source(find_source(name, locations.data_root(data_root)), size, skip_unreadable=skip_unreadable)


def find_source(name: str, root: Path) -> Source:
    """Where the images of a data set are, looked for below the data root; an error where they are not."""
    if name in ("cifar10", "cifar100"):
        from singleshot.data.formats.cifar import cifar_source

        return cifar_source(name, root)
    if name in ("fashion_mnist", "mnist"):
        from singleshot.data.formats.mnist import mnist_source

        return mnist_source(name, root)
    if name == "tiny_imagenet":
        from singleshot.data.formats.tiny_imagenet import tiny_imagenet_source

        return tiny_imagenet_source(root)
    folder = Path(name).expanduser()
    if folder.is_dir() or "/" in name or os.sep in name:
        from singleshot.data.formats.folder import folder_source

        return folder_source(folder)
    nearest = difflib.get_close_matches(name.lower(), _NAMES, n=1)
    hint = f"did you mean {nearest[0]!r}? " if nearest else ""
    raise ValueError(
        f"name={name!r} is no data set; {hint}choose one of {', '.join(_NAMES)}, or give a folder of images by class"
    )
