"""Argument checks, the width multiplier and the initialization that the networks share."""

from __future__ import annotations

from torch import nn

from singleshot.common.checks import check_range, check_size


def check_network(
    num_classes: int, in_channels: int, width: float, *, dropout: float = 0.0, survival: float = 1.0, **counts: int
) -> None:
    """Check the arguments of a network; other named counts must be at least 1."""
    for name, count in {"num_classes": num_classes, "in_channels": in_channels, **counts}.items():
        check_size(name, count, least=1)
    check_range("width", width, "(0, inf)")
    check_range("dropout", dropout, "[0, 1)")
    check_range("survival", survival, "(0, 1]")


def scaled(channels: int, width: float) -> int:
    """Return the number of channels at a width, at least 1.

    >>> scaled(64, 0.5), scaled(12, 0.01)
    (32, 1)
    """
    return max(1, round(channels * width))


def initialize_convolutions(network: nn.Module) -> None:
    """Initialize convolutions with variance 2 / fan-out and bias 0."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
