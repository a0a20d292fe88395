"""Residual blocks that are dropped as a whole (Huang et al. 2016, Deep Networks with Stochastic Depth)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from singleshot.common.checks import check_size


class StochasticDepthBlock(nn.Module):
    """relu(shortcut + branch). In training mode one coin per batch decides whether the branch is kept.

    In evaluation mode the branch is scaled by its survival probability. Only the ``training`` flag of this module
    matters; batch norms inside follow their own flags, so that Monte Carlo inference can switch on noise alone.

    Args:
        branch: not run if it is dropped.
        shortcut: always run. With ``nn.Identity`` the input of the block must be non-negative, such as the output of
            a relu.
        survival: the probability that the branch is kept.
    """

    def __init__(self, branch: nn.Module, shortcut: nn.Module, *, survival: float) -> None:
        super().__init__()
        check_survival(survival=survival)
        self.branch = branch
        self.shortcut = shortcut
        self.survival = survival

    def forward(self, x: Tensor) -> Tensor:
        """Keep or drop the branch in training mode, scale it in evaluation mode."""
        if self.training:
            return self.kept(x) if self.draw() else self.dropped(x)
        return torch.relu(self.shortcut(x) + self.survival * self.branch(x))

    def draw(self) -> bool:
        """Draw whether the branch is kept."""
        # On the CPU for every device: reading a GPU tensor would wait for all queued work.
        return self.survival == 1 or bool(torch.rand((), device="cpu") < self.survival)

    def kept(self, x: Tensor) -> Tensor:
        """Return relu(shortcut + branch)."""
        return self.joined(self.shortcut(x), self.branch(x))

    def dropped(self, x: Tensor) -> Tensor:
        """Return relu(shortcut)."""
        return self.joined(self.shortcut(x), None)

    def joined(self, shortcut: Tensor, branch: Tensor | None) -> Tensor:
        """Add the branch, if it was kept, and apply the relu."""
        if branch is not None:
            return torch.relu(shortcut + branch)
        # The input of an identity shortcut is non-negative, so relu would not change it.
        return shortcut if isinstance(self.shortcut, nn.Identity) else torch.relu(shortcut)

    def extra_repr(self) -> str:
        """The survival probability."""
        return f"survival={self.survival:.4g}"


def linear_survival(blocks: int, last: float) -> list[float]:
    """Survival probabilities 1 − l/L·(1 − last) of the blocks l = 1 … L.

    >>> linear_survival(4, last=0.5)
    [0.875, 0.75, 0.625, 0.5]
    """
    check_size("blocks", blocks, least=1)
    check_survival(last=last)
    return [1 - block / blocks * (1 - last) for block in range(1, blocks + 1)]


def check_survival(**probabilities: float) -> None:
    """Raise if a named survival probability is outside (0, 1]."""
    for name, survival in probabilities.items():
        if not 0 < survival <= 1:
            raise ValueError(f"{name} must lie in (0, 1], the chance to be kept, got {survival!r}; 1 drops nothing")
