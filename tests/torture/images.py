"""Damaged image data: idx files, Tiny ImageNet and folders of images are refused with their name, or read."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from singleshot.data.catalogue import PUBLICATIONS
from singleshot.data.formats.folder import folder_source
from singleshot.data.formats.mnist import mnist_source
from singleshot.data.formats.tiny_imagenet import tiny_imagenet_source
from singleshot.data.image_source import ImageSource
from small_publications import mnist_files, tiny_imagenet_files, write
from torture.mutation import mutated
from torture.tally import Tally

CASES = 20
IDX = mnist_files(train=6, test=4)
TINY = tiny_imagenet_files(classes=2, train=2, test=1)
PLAIN = {name.replace("train/", "").replace("/images", ""): data for name, data in TINY.items() if "train/" in name}


def sources(folder: Path, files: dict[str, bytes]) -> ImageSource:
    """Open the files as the data set that they belong to."""
    if "wnids.txt" in files:
        return tiny_imagenet_source(folder)
    if any("idx" in name for name in files):
        return mnist_source(PUBLICATIONS["mnist"], folder, [folder / name for name in files])
    return folder_source(folder)


def damaged_images(tally: Tally) -> None:
    """Damage one file of a data set and decode all of its images."""
    unzipped = {name.removesuffix(".gz"): gzip.decompress(data) for name, data in IDX.items()}
    for number in range(CASES):
        files = dict(tally.random.choice([IDX, unzipped, TINY, PLAIN]))
        name = tally.random.choice(list(files))
        change, files[name] = mutated(files[name] or b"\n", tally.random)
        folder = tally.folder / str(number)
        write(folder, files)
        with tally.case(f"{change}: {folder / name}"):
            try:
                source = sources(folder, files)
                for read in (source.train, source.test):
                    for batch in read(8):
                        assert batch.images.dtype == np.uint8
                        assert len(batch.images) == len(batch.labels)
                        assert all(str(folder) in reason for reason in batch.unreadable)
            except ValueError as error:
                assert str(folder) in str(error), f"the message does not name the folder: {error}"
