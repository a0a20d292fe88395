"""Which images are trained on and which are held out, all classes in proportion."""

from __future__ import annotations

import torch
from torch import Tensor

SPLIT_SEED = 0  # the same images for every run, so that runs with different seeds can be compared


def balanced_order(labels: Tensor) -> Tensor:
    """A random order of the examples in which every beginning has the classes in about their whole proportion."""
    generator = torch.Generator().manual_seed(SPLIT_SEED)
    shuffled = torch.randperm(len(labels), generator=generator)
    by_class = shuffled[torch.argsort(labels[shuffled], stable=True)]
    counts = torch.bincount(labels)
    begins = (counts.cumsum(0) - counts)[labels[by_class]]
    rank = torch.arange(len(labels)) - begins
    jitter = torch.rand(len(labels), generator=generator, dtype=torch.float64)
    place = (rank.double() + jitter) / counts[labels[by_class]]  # each class spread evenly over (0, 1)
    return by_class[torch.argsort(place, stable=True)]


def split_training(labels: Tensor, *, validation: float, train_images: int | None) -> tuple[Tensor, Tensor]:
    """Positions to train on and positions to validate on, at most ``train_images`` together; each in rising order.

    The same images are used whether some are held out or not: holding them out costs what it would cost in earnest.
    """
    order = balanced_order(labels)[:train_images]
    held_out = round(validation * len(order))
    if validation and not held_out:
        raise ValueError(f"validation={validation} of {len(order)} training images is not one image; take more")
    if held_out >= len(order):
        raise ValueError(f"validation={validation} of {len(order)} training images leaves none to train on")
    return order[held_out:].sort().values, order[:held_out].sort().values
