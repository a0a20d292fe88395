"""Datasets by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from singleshot.common.text import unknown_name
from singleshot.data.catalogue import PUBLICATIONS, Publication
from singleshot.data.formats.cifar import cifar_source
from singleshot.data.formats.folder import folder_source
from singleshot.data.formats.mnist import mnist_source
from singleshot.data.formats.tiny_imagenet import tiny_imagenet_source
from singleshot.data.image_source import ImageSource
from singleshot.data.locations import DATA_VARIABLE, candidate_folders, find_dataset, find_file, resolve_data_root

if TYPE_CHECKING:
    from singleshot.data.images import Dataset

_NAMES = sorted([*PUBLICATIONS, "digits"])


def list_datasets() -> list[str]:
    """Return the dataset names that :func:`load_dataset` accepts, besides folders of images.

    >>> list_datasets()
    ['cifar10', 'cifar100', 'digits', 'fashion_mnist', 'mnist', 'tiny_imagenet']
    """
    return list(_NAMES)


def load_dataset(
    name: str,
    *,
    data_root: Path | None = None,
    image_size: int = 32,
    skip_unreadable: bool = False,
    classes: int | None = None,
) -> Dataset:
    """Load a dataset with all images resized to one size. Decoded images are cached.

    Args:
        name: one of :func:`list_datasets`, or the path of a folder with a subfolder of images for each class.
        data_root: the folder of all datasets; None uses $SINGLESHOT_DATA, then the user's cache.
        image_size: height and width in pixels.
        skip_unreadable: skip unreadable images with a warning instead of raising an error.
        classes: use the images of the first classes only; None uses all.

    >>> digits = load_dataset("digits", image_size=8)
    >>> digits.train.images.shape
    torch.Size([898, 1, 8, 8])
    """
    from singleshot.common.checks import check_size

    size = check_size("image_size", image_size, least=1)
    if name == "digits":  # bundled with scikit-learn
        from singleshot.data.formats.digits import digits_dataset

        dataset = digits_dataset(size)
    else:
        from singleshot.data.cache import load_source

        source = find_source(name, resolve_data_root(data_root))
        dataset = load_source(source, size, skip_unreadable=skip_unreadable)
    return dataset if classes is None else dataset.first_classes(classes)


def find_source(name: str, root: Path) -> ImageSource:
    """Find the files of a dataset in the data root, or raise an error that says where it was expected."""
    if name in PUBLICATIONS:
        return _published_source(PUBLICATIONS[name], root)
    folder = Path(name).expanduser()
    if folder.is_dir() or "/" in name or os.sep in name:
        return folder_source(folder)
    raise unknown_name("dataset", name, _NAMES, ", or give a folder of images by class")


def _published_source(published: Publication, root: Path) -> ImageSource:
    found = find_dataset(published, root)
    if found is None:
        folders = ", ".join(str(folder) for folder in candidate_folders(published, root))
        raise ValueError(
            f"dataset {published.name} not found in {folders}. Download it with: singleshot data fetch "
            f"{published.name}; or set --data-root or ${DATA_VARIABLE} to the folder that contains it"
        )
    folder, layout = found
    files = {file.name: find_file(folder, file) for file in layout.files}
    paths = [path for path in files.values() if path is not None]
    if len(paths) < len(files):
        missing = ", ".join(name for name, path in files.items() if path is None)
        raise ValueError(
            f"{folder} is incomplete: missing {missing}; download it with: singleshot data fetch {published.name}"
        )
    if layout.name == "images by class":
        return tiny_imagenet_source(folder)
    if layout.name == "idx":
        return mnist_source(published, folder, paths)
    return cifar_source(published, layout, folder, paths)
