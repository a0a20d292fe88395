"""Images with their labels, and a data set made of two such parts."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Images:
    """Images (N, C, H, W) as uint8, in memory or mapped from a file, with their labels (N,) as int64."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: Tensor) -> Images:
        """The images at these positions."""
        return Images(self.images[index], self.labels[index])

    def normalized(self) -> Tensor:
        """The images as float32 in [−1, 1]: a copy four times as large, for small sets."""
        return self.images.float() / 127.5 - 1


@dataclass(frozen=True)
class Dataset:
    """What is trained on and what is reported on, with the names of the classes."""

    name: str
    train: Images
    test: Images
    class_names: tuple[str, ...]
    mean: tuple[float, ...]  # of each channel over the training images, pixels taken as 0 to 1
    std: tuple[float, ...]

    @property
    def channels(self) -> int:
        """Channels of every image."""
        return int(self.train.images.shape[1])
