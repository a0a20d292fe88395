"""MNIST and Fashion-MNIST: 28×28 grey images in ten classes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from singleshot.data.decoding import resize_images
from singleshot.data.idx import find_idx, open_idx
from singleshot.data.locations import candidate_folders
from singleshot.data.source import BATCH, Batch, Source, first_complete

SIDE = 28

CLASS_NAMES = {
    "mnist": tuple("0123456789"),
    "fashion_mnist": (
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
}
PARTS = ("train", "t10k")


def mnist_source(name: str, root: Path) -> Source:
    """MNIST or Fashion-MNIST in a data root, or where a package of the system installs it."""
    stems = [file for part in PARTS for file in (_images_file(part), _labels_file(part))]
    needed = [f"{stem}|{stem}.gz" for stem in stems]
    folder = first_complete(name, [(candidate, needed) for candidate in candidate_folders(name, root)])
    return Source(
        name=name,
        root=folder,
        files=tuple(find_idx(folder, stem) for stem in stems),
        class_names=CLASS_NAMES[name],
        channels=1,
        train=lambda size: _batches(folder, "train", size),
        test=lambda size: _batches(folder, "t10k", size),
    )


def _images_file(part: str) -> str:
    return f"{part}-images-idx3-ubyte"


def _labels_file(part: str) -> str:
    return f"{part}-labels-idx1-ubyte"


def _batches(folder: Path, part: str, size: int) -> Iterator[Batch]:
    images_path, labels_path = find_idx(folder, _images_file(part)), find_idx(folder, _labels_file(part))
    with open_idx(labels_path, ()) as reader:
        labels = reader.take(reader.shape[0])
        reader.check_end()
    wrong = np.flatnonzero(labels > 9)
    if len(wrong):
        raise ValueError(f"{labels_path}: label {wrong[0]} is {labels[wrong[0]]}, expected 0 to 9; get the file again")
    with open_idx(images_path, (SIDE, SIDE)) as reader:
        if reader.shape[0] != len(labels):
            raise ValueError(
                f"{images_path} promises {reader.shape[0]:,} images, but {labels_path} holds {len(labels):,} labels; "
                "get both again"
            )
        for start in range(0, len(labels), BATCH):
            few = labels[start : start + BATCH]
            yield Batch(resize_images(reader.take(len(few))[:, None], size), few.astype(np.int64))
        reader.check_end()
