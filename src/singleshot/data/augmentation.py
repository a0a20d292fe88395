"""Batched augmentation and normalization of uint8 images.

All random numbers of a batch are drawn first, from one generator, so that the same generator state gives the same
images whether the batch is processed by one process or split over several.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Shifts:
    """The crop offset within the padded image, and whether to mirror, for each image of a batch."""

    rows: Tensor
    columns: Tensor
    mirrored: Tensor

    @classmethod
    def draw(cls, batch: int, *, padding: int, mirror: bool, generator: torch.Generator) -> Shifts:
        """Draw offsets uniformly from all (2·padding + 1)² positions, and mirror half of the images if ``mirror``."""
        device = generator.device
        rows, columns = torch.randint(0, 2 * padding + 1, (2, batch), generator=generator, device=device)
        mirrored = torch.rand(batch, generator=generator, device=device) < (0.5 if mirror else 0.0)
        return cls(rows, columns, mirrored)

    def __getitem__(self, part: slice) -> Shifts:
        return Shifts(self.rows[part], self.columns[part], self.mirrored[part])


def shift_and_mirror(images: Tensor, shifts: Shifts, *, padding: int) -> Tensor:
    """Pad images (B, C, H, W) with zeros, crop them back to H×W, and mirror some of them horizontally."""
    height, width = images.shape[-2:]
    if padding:
        padded = torch.nn.functional.pad(images, (padding,) * 4)
        windows = padded.unfold(2, height, 1).unfold(3, width, 1)  # a view of every crop of every image
        each = torch.arange(len(images), device=images.device)
        images = windows[each, :, shifts.rows, shifts.columns]
    return torch.where(shifts.mirrored[:, None, None, None], images.flip(-1), images)


class Normalization:
    """Convert uint8 pixels to float32 with mean 0 and standard deviation 1 per channel over the training set."""

    def __init__(
        self,
        mean: tuple[float, ...],
        std: tuple[float, ...],
        *,
        channels_last: bool = False,
        device: torch.device | str = "cpu",
    ) -> None:
        # (x / 255 − mean) / std as one multiplication and one addition. A constant channel is only centred.
        deviation = torch.tensor([value or 1.0 for value in std], dtype=torch.float64)
        self.scale = (1 / (255 * deviation)).float().view(1, -1, 1, 1).to(device)
        self.shift = (-torch.tensor(mean, dtype=torch.float64) / deviation).float().view(1, -1, 1, 1).to(device)
        self.memory_format = torch.channels_last if channels_last else torch.contiguous_format

    def __call__(self, images: Tensor) -> Tensor:
        """Normalize uint8 images (B, C, H, W) on the device of this object."""
        # Converting to channels_last is four times cheaper on bytes than on floats.
        return images.contiguous(memory_format=self.memory_format).float().mul_(self.scale).add_(self.shift)
