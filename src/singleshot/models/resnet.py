"""ResNet-18 and ResNet-34 for small images, with stochastic depth (He et al. 2016; Huang et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import nn

from singleshot.models.construction import check_network, initialize_convolutions, scaled
from singleshot.sampling.stochastic_depth import StochasticDepthBlock, linear_survival


class ResNet(nn.Sequential):
    """A 3×3 stem, stages of basic blocks that double the channels and halve the image, pooling and a linear layer.

    Maps images (B, in_channels, H, W), designed for 32×32, to logits (B, num_classes).

    Args:
        stages: blocks per stage; the first stage has 64 channels and keeps the image size.
        width: multiplies the channels of every layer.
        survival: probability that a pass keeps the last block; it falls linearly from 1 over the blocks. 1 is no noise.
    """

    def __init__(
        self,
        stages: Sequence[int],
        num_classes: int,
        *,
        in_channels: int = 3,
        width: float = 1.0,
        survival: float = 0.5,
    ) -> None:
        super().__init__()
        check_network(num_classes, in_channels, width, survival=survival, stages=min(stages, default=0))
        channels = scaled(64, width)
        self.stem = nn.Sequential(
            nn.Conv2d(in_channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()
        )
        survivals = iter(linear_survival(sum(stages), survival))
        blocks = []
        for stage, count in enumerate(stages):
            outputs = scaled(64 * 2**stage, width)
            for position in range(count):
                stride = 2 if stage > 0 and position == 0 else 1
                blocks.append(_basic_block(channels, outputs, stride, next(survivals)))
                channels = outputs
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, num_classes))
        initialize_convolutions(self)


resnet18 = partial(ResNet, (2, 2, 2, 2))
resnet34 = partial(ResNet, (3, 4, 6, 3))


def _basic_block(inputs: int, outputs: int, stride: int, survival: float) -> StochasticDepthBlock:
    branch = nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
    )
    shortcut: nn.Module = nn.Identity()
    if stride != 1 or inputs != outputs:
        shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
    return StochasticDepthBlock(branch, shortcut, survival=survival)
