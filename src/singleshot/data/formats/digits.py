"""Handwritten digits: 1,797 real 8×8 images bundled with scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from singleshot.data.decoding import channel_statistics, resize_images
from singleshot.data.images import Dataset, Images

SPLIT_SEED = 0
MAX_GRAY = 16  # scikit-learn stores 17 gray levels


@dataclass(frozen=True)
class DigitSplit:
    """A few training images, the rest of their half for validation, and the other half for testing.

    >>> split = split_digits(train_images=30, seed=0)
    >>> len(split.train), len(split.validation), len(split.test)
    (30, 868, 899)
    """

    train: Images
    validation: Images
    test: Images


def load_digits() -> Images:
    """Load all 1,797 digits with pixel values scaled to 0–255.

    >>> load_digits().images.shape
    torch.Size([1797, 1, 8, 8])
    """
    from sklearn.datasets import load_digits as load

    bundle = load()
    pixels = np.round(bundle.images * (255 / MAX_GRAY)).astype(np.uint8)
    return Images(torch.from_numpy(pixels).unsqueeze(1), torch.from_numpy(bundle.target.astype(np.int64)))


def split_digits(train_images: int, seed: int) -> DigitSplit:
    """Draw balanced training images from one half. The test half is the same for every seed.

    >>> split_digits(train_images=30, seed=0).train.labels.bincount()
    tensor([3, 3, 3, 3, 3, 3, 3, 3, 3, 3])
    """
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    pool, test = _halves(digits)
    classes = int(digits.labels.max()) + 1
    if not classes <= train_images <= len(pool) - classes:
        raise ValueError(f"train_images must be in [{classes}, {len(pool) - classes}], got {train_images}")
    train, validation = train_test_split(
        pool, train_size=train_images, random_state=seed, stratify=digits.labels.numpy()[pool]
    )
    return DigitSplit(*(digits.take(torch.from_numpy(np.sort(part))) for part in (train, validation, test)))


def digits_dataset(image_size: int) -> Dataset:
    """Return the digits resized, with 898 training images and the 899 test images of every split."""
    digits = load_digits()
    resized = Images(torch.from_numpy(resize_images(digits.images.numpy(), image_size)), digits.labels)
    train, test = (resized.take(torch.from_numpy(np.sort(half))) for half in _halves(digits))
    mean, std = channel_statistics(train.images.numpy())
    return Dataset("digits", train, test, tuple("0123456789"), tuple(mean), tuple(std))


def _halves(digits: Images) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the positions of the images for training and validation, and of the test images."""
    from sklearn.model_selection import train_test_split

    positions = np.arange(len(digits))
    pool, test = train_test_split(positions, test_size=0.5, random_state=SPLIT_SEED, stratify=digits.labels.numpy())
    return pool, test
