"""Handwritten digits: 1,797 real 8×8 images that come with scikit-learn, so that nothing is downloaded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from singleshot.data.decoding import PixelCounts, resize_images
from singleshot.data.images import Dataset, Images

SPLIT_SEED = 0
BRIGHTEST = 16  # scikit-learn stores 17 grey levels


@dataclass(frozen=True)
class DigitSplit:
    """A few images to train on, the rest of their half to choose settings on, and the other half to report on."""

    train: Images
    validation: Images
    test: Images


def load_digits() -> Images:
    """All 1,797 digits, their 17 grey levels spread over 0 to 255."""
    from sklearn.datasets import load_digits as load

    bundle = load()
    pixels = np.round(bundle.images * (255 / BRIGHTEST)).astype(np.uint8)
    return Images(torch.from_numpy(pixels).unsqueeze(1), torch.from_numpy(bundle.target.astype(np.int64)))


def split_digits(train_images: int, seed: int) -> DigitSplit:
    """The test half is the same for every seed; the seed draws the training images, balanced, from the other half."""
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    pool, test = _halves(digits)
    classes = int(digits.labels.max()) + 1
    if not classes <= train_images <= len(pool) - classes:
        raise ValueError(f"train_images must lie in [{classes}, {len(pool) - classes}], got {train_images}")
    train, validation = train_test_split(
        pool, train_size=train_images, random_state=seed, stratify=digits.labels.numpy()[pool]
    )
    return DigitSplit(*(digits.take(torch.from_numpy(np.sort(part))) for part in (train, validation, test)))


def digits_dataset(image_size: int) -> Dataset:
    """One half to train on, 898 images, and the same half to report on as ever, 899, at the given size."""
    digits = load_digits()
    pixels = torch.from_numpy(resize_images(digits.images.numpy(), image_size))
    train, test = (torch.from_numpy(np.sort(half)) for half in _halves(digits))
    counts = PixelCounts(channels=1)
    counts.add(pixels[train].numpy())
    return Dataset(
        name="digits",
        train=Images(pixels[train], digits.labels[train]),
        test=Images(pixels[test], digits.labels[test]),
        class_names=tuple("0123456789"),
        mean=counts.mean(),
        std=counts.std(),
    )


def _halves(digits: Images) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Positions of the images to train or choose on, and of those to report on."""
    from sklearn.model_selection import train_test_split

    everything = np.arange(len(digits))
    pool, test = train_test_split(everything, test_size=0.5, random_state=SPLIT_SEED, stratify=digits.labels.numpy())
    return pool, test
