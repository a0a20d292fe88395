"""WideResNet-16-8, with dropout inside its blocks (Zagoruyko & Komodakis 2016)."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from singleshot.models.construction import check_network, initialize_convolutions, scaled


class WideResNet(nn.Sequential):
    """Three groups of wide pre-activation blocks; the second and third halve the image.

    Maps images (B, in_channels, H, W), designed for 32×32, to logits (B, num_classes).

    Args:
        blocks: blocks per group; the depth of the network is 6 · blocks + 4.
        widening: the groups have 16, 32 and 64 times this many channels.
        width: multiplies the channels of every layer.
        dropout: share of units dropped between the two convolutions of each block.
    """

    def __init__(
        self,
        blocks: int,
        widening: int,
        num_classes: int,
        *,
        in_channels: int = 3,
        width: float = 1.0,
        dropout: float = 0.3,
    ) -> None:
        super().__init__()
        check_network(num_classes, in_channels, width, dropout=dropout, blocks=blocks, widening=widening)
        channels = scaled(16, width)
        self.stem = nn.Conv2d(in_channels, channels, 3, padding=1, bias=False)
        layers = []
        for group in range(3):
            outputs = scaled(16 * 2**group * widening, width)
            for position in range(blocks):
                stride = 2 if group > 0 and position == 0 else 1
                layers.append(WideBlock(channels, outputs, stride=stride, dropout=dropout))
                channels = outputs
        self.blocks = nn.Sequential(*layers)
        self.head = nn.Sequential(
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(channels, num_classes),
        )
        initialize_convolutions(self)


class WideBlock(nn.Module):
    """x + conv(dropout(relu(bn(conv(relu(bn(x)))))))."""

    def __init__(self, inputs: int, outputs: int, *, stride: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(inputs)
        self.branch = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        )
        changes_shape = stride != 1 or inputs != outputs
        self.projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if changes_shape else None

    def forward(self, x: Tensor) -> Tensor:
        """Add the branch to x, or to a projection of the activated input if the shape changes."""
        activated = torch.relu(self.norm(x))
        shortcut = x if self.projection is None else self.projection(activated)
        out: Tensor = shortcut + self.branch(activated)
        return out


wide_resnet16_8 = partial(WideResNet, 2, 8)
