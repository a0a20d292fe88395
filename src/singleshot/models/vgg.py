"""VGG-16 with batch norm for 32×32 images, with dropout in its head (Simonyan & Zisserman 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import nn

from singleshot.models.construction import check_network, initialize_convolutions, scaled

STAGE_CHANNELS = (64, 128, 256, 512, 512)


class VGG(nn.Sequential):
    """Five stages of 3×3 convolutions, each halving the image, and three fully connected layers.

    Maps images (B, in_channels, 32, 32) to logits (B, num_classes).

    Args:
        stages: convolutions per stage.
        width: multiplies the channels of every layer.
        dropout: share of units dropped before each fully connected layer except the last.
    """

    def __init__(
        self, stages: Sequence[int], num_classes: int, *, in_channels: int = 3, width: float = 1.0, dropout: float = 0.5
    ) -> None:
        super().__init__()
        check_network(num_classes, in_channels, width, dropout=dropout, stages=min(stages, default=0))
        if len(stages) != len(STAGE_CHANNELS):
            raise ValueError(f"stages must have {len(STAGE_CHANNELS)} entries, which reduce 32×32 to 1×1, got {stages}")
        layers: list[nn.Module] = []
        channels = in_channels
        for convolutions, stage_channels in zip(stages, STAGE_CHANNELS, strict=True):
            outputs = scaled(stage_channels, width)
            for _ in range(convolutions):
                layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
                channels = outputs
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers, nn.Flatten())
        self.classifier = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(channels, channels),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(channels, channels),
            nn.ReLU(),
            nn.Linear(channels, num_classes),
        )
        initialize_convolutions(self)
        # He initialization for the hidden layers too: the original std of 0.01, chosen for 4,096 units, makes the
        # signal of a narrow network vanish during the first hundreds of steps.
        *hidden, last = (layer for layer in self.classifier if isinstance(layer, nn.Linear))
        for layer in hidden:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        nn.init.normal_(last.weight, std=0.01)
        for layer in (*hidden, last):
            nn.init.zeros_(layer.bias)


vgg16 = partial(VGG, (2, 2, 3, 3, 3))
