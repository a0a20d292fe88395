"""DenseNet-40-12 without bottleneck or compression, with dropout after each convolution (Huang et al. 2017)."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from singleshot.models.construction import check_network, initialize_convolutions, scaled


class DenseNet(nn.Sequential):
    """Three dense blocks, in which each layer receives the outputs of all layers before it, with pooling in between.

    Maps images (B, in_channels, H, W), designed for 32×32, to logits (B, num_classes).

    Args:
        layers: layers per dense block; the depth of the network is 3 · layers + 4.
        growth: channels that each layer adds.
        width: multiplies the growth and the channels of the first convolution.
        dropout: share of units dropped after each convolution except the first.
    """

    def __init__(
        self,
        layers: int,
        growth: int,
        num_classes: int,
        *,
        in_channels: int = 3,
        width: float = 1.0,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        check_network(num_classes, in_channels, width, dropout=dropout, layers=layers, growth=growth)
        channels, added = scaled(16, width), scaled(growth, width)
        features: list[nn.Module] = [nn.Conv2d(in_channels, channels, 3, padding=1, bias=False)]
        for block in range(3):
            if block > 0:
                features += [*_activated_convolution(channels, channels, 1, dropout), nn.AvgPool2d(2)]
            for _ in range(layers):
                features.append(DenseLayer(channels, added, dropout=dropout))
                channels += added
        self.features = nn.Sequential(*features, nn.BatchNorm2d(channels), nn.ReLU())
        linear = nn.Linear(channels, num_classes)
        nn.init.zeros_(linear.bias)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), linear)
        initialize_convolutions(self)


class DenseLayer(nn.Module):
    """Concatenates its input with ``growth`` new channels."""

    def __init__(self, inputs: int, growth: int, *, dropout: float) -> None:
        super().__init__()
        self.branch = nn.Sequential(*_activated_convolution(inputs, growth, 3, dropout))

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, inputs, H, W) to (B, inputs + growth, H, W)."""
        return torch.cat([x, self.branch(x)], dim=1)


densenet40_12 = partial(DenseNet, 12, 12)


def _activated_convolution(inputs: int, outputs: int, size: int, dropout: float) -> list[nn.Module]:
    return [
        nn.BatchNorm2d(inputs),
        nn.ReLU(),
        nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False),
        nn.Dropout(dropout),
    ]
