"""Stratified splits into training and validation images."""

from __future__ import annotations

import torch
from torch import Tensor

SPLIT_SEED = 0  # the same split for every run, so that runs with different seeds are comparable


def balanced_order(labels: Tensor) -> Tensor:
    """Return a random order in which every prefix has about the class proportions of the whole."""
    generator = torch.Generator().manual_seed(SPLIT_SEED)
    shuffled = torch.randperm(len(labels), generator=generator)
    by_class = shuffled[torch.argsort(labels[shuffled], stable=True)]
    counts = torch.bincount(labels)
    starts = (counts.cumsum(0) - counts)[labels[by_class]]
    rank = torch.arange(len(labels)) - starts
    jitter = torch.rand(len(labels), generator=generator, dtype=torch.float64)
    place = (rank.double() + jitter) / counts[labels[by_class]]  # each class spread evenly over (0, 1)
    return by_class[torch.argsort(place, stable=True)]


def split_training(labels: Tensor, *, validation: float, train_images: int | None) -> tuple[Tensor, Tensor]:
    """Return sorted positions of the training and the validation images, at most ``train_images`` together.

    Validation images are taken from the training images, so holding them out leaves fewer to train on.
    """
    order = balanced_order(labels)[:train_images]
    held_out = round(validation * len(order))
    if validation and not held_out:
        raise ValueError(f"validation={validation} of {len(order)} training images is less than one image; increase it")
    if held_out >= len(order):
        raise ValueError(f"validation={validation} of {len(order)} training images leaves no training images")
    return order[held_out:].sort().values, order[:held_out].sort().values
