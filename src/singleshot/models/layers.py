"""What the networks share about their arguments: the checks, and the width multiplier."""

from __future__ import annotations

import math

from torch import nn

from singleshot.common.checks import check_counts
from singleshot.sampling.stochastic_depth import check_survival


def check_arguments(*, width: float, dropout: float = 0.0, survival: float = 1.0, **counts: int) -> None:
    """Refuses a width that is not positive, a rate out of range and any of the named counts below 1."""
    check_counts(**counts)
    check_survival(survival=survival)
    if not (width > 0 and math.isfinite(width)):
        raise ValueError(f"width must be a positive multiplier of the channels, such as 0.25, got {width!r}")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must lie in [0, 1), the share of units dropped, got {dropout!r}; 0 drops none")


def scaled(channels: int, width: float) -> int:
    """So many channels at this width, at least one.

    >>> scaled(64, 0.5), scaled(12, 0.01)
    (32, 1)
    """
    return max(1, round(channels * width))


def initialize_convolutions(network: nn.Module) -> None:
    """Convolutions normal with variance 2 / fan-out, their biases 0; batch norms 1 and 0."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)
