"""A convolutional network that trains in seconds on one core."""

from __future__ import annotations

from torch import nn

from singleshot.models.construction import check_network, scaled


class SmallCNN(nn.Sequential):
    """Two convolutions, a hidden layer, and dropout before each fully connected layer.

    Maps images (B, in_channels, H, W) of any size from 2 × 2 to logits (B, num_classes).

    Args:
        width: multiplies the channels of every layer.
        dropout: share of units dropped before each fully connected layer.
    """

    def __init__(self, num_classes: int, *, in_channels: int = 1, width: float = 1.0, dropout: float = 0.2) -> None:
        check_network(num_classes, in_channels, width, dropout=dropout)
        super().__init__()
        channels, hidden = scaled(16, width), scaled(128, width)
        self.features = nn.Sequential(
            nn.Conv2d(in_channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, 2 * channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.AdaptiveAvgPool2d(4),  # does nothing to the 8 × 8 pixels of digits
            nn.Flatten(),
        )
        self.classifier = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(2 * channels * 4**2, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, num_classes),
        )
