"""A convolutional network that trains in a second on one core."""

from __future__ import annotations

from torch import nn


class SmallCNN(nn.Sequential):
    """Two convolutions, a hidden layer, and dropout before each fully connected layer.

    Maps images (B, in_channels, image_size, image_size) to logits (B, num_classes).

    Args:
        image_size: height and width of the images, an even number.
        width: channels of the first convolution; the other layers scale with it.
        dropout: share of units dropped before each fully connected layer.
    """

    def __init__(
        self, num_classes: int, *, in_channels: int = 1, image_size: int = 8, width: int = 16, dropout: float = 0.2
    ) -> None:
        super().__init__()
        if image_size < 2 or image_size % 2:
            raise ValueError(f"image_size must be even and at least 2, got {image_size}")
        self.features = nn.Sequential(
            nn.Conv2d(in_channels, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )
        self.classifier = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(2 * width * (image_size // 2) ** 2, 8 * width),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(8 * width, num_classes),
        )
