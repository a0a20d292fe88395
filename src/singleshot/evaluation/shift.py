"""Images that differ from those of the training: rotated, blurred, noisy or pale, at five strengths."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

STRENGTHS = 5
"""Each shift has the strengths 1 to 5."""


def _rotation(images: Tensor, strength: int) -> Tensor:
    """Rotate by 6° per strength, repeating the border."""
    angle = math.radians(6 * strength)
    matrix = torch.tensor([[math.cos(angle), -math.sin(angle), 0.0], [math.sin(angle), math.cos(angle), 0.0]])
    grid = F.affine_grid(matrix.expand(len(images), -1, -1), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


def _blur(images: Tensor, strength: int) -> Tensor:
    """Blur with a Gaussian whose standard deviation is 2.5 % of the side per strength."""
    side, channels = images.shape[-1], images.shape[1]
    deviation = 0.025 * strength * side
    reach = max(1, math.ceil(3 * deviation))
    kernel = torch.exp(-(torch.arange(-reach, reach + 1).float() ** 2) / (2 * deviation**2))
    kernel = (kernel / kernel.sum()).expand(channels, 1, 1, -1)
    for weight, padding in ((kernel, (reach, reach, 0, 0)), (kernel.transpose(2, 3), (0, 0, reach, reach))):
        images = F.conv2d(F.pad(images, padding, mode="replicate"), weight, groups=channels)
    return images


def _noise(images: Tensor, strength: int) -> Tensor:
    """Add Gaussian noise with a standard deviation of 10 levels of 255 per strength."""
    generator = torch.Generator().manual_seed(strength)
    return images + 10 * strength * torch.randn(images.shape, generator=generator)


def _contrast(images: Tensor, strength: int) -> Tensor:
    """Move every pixel towards the mean of its image, by 17 % per strength."""
    mean = images.mean((1, 2, 3), keepdim=True)
    return mean + (1 - 0.17 * strength) * (images - mean)


SHIFTS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "rotation": _rotation,
    "blur": _blur,
    "noise": _noise,
    "contrast": _contrast,
}


def shifted(images: Tensor, shift: str, strength: int) -> Tensor:
    """Return uint8 images (N, C, H, W) with a shift of `SHIFTS` at a strength from 1 to 5.

    >>> shifted(torch.tensor([[[[0, 200]]]], dtype=torch.uint8), "contrast", 5)
    tensor([[[[ 85, 115]]]], dtype=torch.uint8)
    """
    return SHIFTS[shift](images.float(), strength).round().clamp(0, 255).to(torch.uint8)
