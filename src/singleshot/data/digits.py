"""Handwritten digits: 1,797 real 8×8 images that come with scikit-learn, so that nothing is downloaded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from singleshot.data.images import Images

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
    everything = np.arange(len(digits))
    pool, test = train_test_split(everything, test_size=0.5, random_state=SPLIT_SEED, stratify=digits.labels.numpy())
    classes = int(digits.labels.max()) + 1
    if not classes <= train_images <= len(pool) - classes:
        raise ValueError(f"train_images must lie in [{classes}, {len(pool) - classes}], got {train_images}")
    train, validation = train_test_split(
        pool, train_size=train_images, random_state=seed, stratify=digits.labels.numpy()[pool]
    )
    train, validation, test = (torch.from_numpy(np.sort(part)) for part in (train, validation, test))
    return DigitSplit(digits.take(train), digits.take(validation), digits.take(test))
