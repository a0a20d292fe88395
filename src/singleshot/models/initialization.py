"""The initialization of He et al. (2015), which all the networks here start from."""

from __future__ import annotations

from torch import nn


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
