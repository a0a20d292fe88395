"""Labelled images, and a dataset with a training and a test split."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor


@dataclass(frozen=True)
class Images:
    """Images (N, C, H, W) as uint8, in memory or memory-mapped, with labels (N,) as int64.

    >>> import torch
    >>> pictures = Images(torch.zeros(3, 1, 8, 8, dtype=torch.uint8), torch.tensor([0, 1, 1]))
    >>> len(pictures), pictures.take(torch.tensor([0, 2])).labels
    (3, tensor([0, 1]))
    """

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
    """A training and a test split, with the names of the classes.

    >>> from singleshot.data import load_dataset
    >>> digits = load_dataset("digits", image_size=8)
    >>> len(digits.train), len(digits.test), digits.channels, digits.class_names[:3]
    (898, 899, 1, ('0', '1', '2'))
    """

    name: str
    train: Images
    test: Images
    class_names: tuple[str, ...]
    mean: tuple[float, ...]  # per channel over the training images, pixels scaled to [0, 1]
    std: tuple[float, ...]

    def first_classes(self, count: int) -> Dataset:
        """Return the images of the first classes. The pixel statistics stay those of all images."""
        if not 2 <= count <= len(self.class_names):
            raise ValueError(f"classes must lie in [2, {len(self.class_names)}] for {self.name}, got {count}")
        train, test = (part.take((part.labels < count).nonzero().squeeze(1)) for part in (self.train, self.test))
        return replace(self, train=train, test=test, class_names=self.class_names[:count])

    @property
    def channels(self) -> int:
        """Number of channels of every image."""
        return int(self.train.images.shape[1])
