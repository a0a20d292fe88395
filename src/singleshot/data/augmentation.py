"""A batch of uint8 images to what a network takes: shifted, mirrored and normalized, all images at once.

What is random is drawn first, for the whole batch, from one generator: the same generator state gives the same images,
on one process or split over many.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Shifts:
    """For each image of a batch, where its crop begins inside the padded image, and whether it is mirrored."""

    rows: Tensor
    columns: Tensor
    mirrored: Tensor

    @classmethod
    def draw(cls, batch: int, *, padding: int, mirror: bool, generator: torch.Generator) -> Shifts:
        """Crops uniform over all (2·padding + 1)² places; half of the images mirrored, if ``mirror``."""
        device = generator.device
        rows, columns = torch.randint(0, 2 * padding + 1, (2, batch), generator=generator, device=device)
        mirrored = torch.rand(batch, generator=generator, device=device) < (0.5 if mirror else 0.0)
        return cls(rows, columns, mirrored)

    def __getitem__(self, part: slice) -> Shifts:
        return Shifts(self.rows[part], self.columns[part], self.mirrored[part])


def shift_and_mirror(images: Tensor, shifts: Shifts, *, padding: int) -> Tensor:
    """Images (B, C, H, W) padded with black on all sides, cropped back to H×W, some of them mirrored left to right."""
    height, width = images.shape[-2:]
    if padding:
        padded = torch.nn.functional.pad(images, (padding,) * 4)
        windows = padded.unfold(2, height, 1).unfold(3, width, 1)  # a view: every crop of every image
        each = torch.arange(len(images), device=images.device)
        images = windows[each, :, shifts.rows, shifts.columns]
    return torch.where(shifts.mirrored[:, None, None, None], images.flip(-1), images)


class Normalization:
    """uint8 pixels to float32 with the training set's mean 0 and deviation 1 in each channel."""

    def __init__(
        self,
        mean: tuple[float, ...],
        std: tuple[float, ...],
        *,
        channels_last: bool = False,
        device: torch.device | str = "cpu",
    ) -> None:
        # (x / 255 − mean) / std as one multiplication and one addition; a constant channel is only centred.
        deviation = torch.tensor([value or 1.0 for value in std], dtype=torch.float64)
        self.scale = (1 / (255 * deviation)).float().view(1, -1, 1, 1).to(device)
        self.shift = (-torch.tensor(mean, dtype=torch.float64) / deviation).float().view(1, -1, 1, 1).to(device)
        self.memory_format = torch.channels_last if channels_last else torch.contiguous_format

    def __call__(self, images: Tensor) -> Tensor:
        """Images (B, C, H, W), uint8, on the device this was made for."""
        # The move to channels_last is four times cheaper while a pixel is one byte.
        return images.contiguous(memory_format=self.memory_format).float().mul_(self.scale).add_(self.shift)
