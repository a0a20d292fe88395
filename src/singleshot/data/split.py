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
    """Positions to train on, at most ``train_images``, and positions to validate on; disjoint, in rising order.

    The held-out images are the same however many of the others are trained on.
    """
    order = balanced_order(labels)
    held_out = round(validation * len(labels))
    if validation and not held_out:
        raise ValueError(f"validation={validation} of {len(labels)} training images is not one image; take more")
    if held_out >= len(labels):
        raise ValueError(f"validation={validation} of {len(labels)} training images leaves none to train on")
    last = len(labels) if train_images is None else held_out + train_images
    return order[held_out:last].sort().values, order[:held_out].sort().values
