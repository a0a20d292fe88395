"""Labelled images, and a dataset with a training and a test split."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Images:
    """Images (N, C, H, W) as uint8, in memory or memory-mapped, with labels (N,) as int64."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: Tensor) -> Images:
        """Return the images at the given positions."""
        return Images(self.images[index], self.labels[index])

    def normalized(self) -> Tensor:
        """Return the images as float32 in [−1, 1]. The copy takes four times the memory."""
        return self.images.float() / 127.5 - 1


@dataclass(frozen=True)
class Dataset:
    """A training and a test split, with the names of the classes."""

    name: str
    train: Images
    test: Images
    class_names: tuple[str, ...]
    mean: tuple[float, ...]  # per channel over the training images, pixels scaled to [0, 1]
    std: tuple[float, ...]

    @property
    def channels(self) -> int:
        """Number of channels of every image."""
        return int(self.train.images.shape[1])
