"""Residual blocks that are dropped as a whole (Huang et al. 2016, Deep Networks with Stochastic Depth)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from singleshot.common.checks import check_counts


class StochasticDepthBlock(nn.Module):
    """relu(shortcut + branch), where training keeps or drops the branch by one coin for the whole batch.

    Evaluation runs every branch and scales it by its survival probability. Only this module's own ``training`` flag
    decides between the two; batch norms inside follow their own flags, so that Monte Carlo inference can switch on
    the noise and nothing else.

    Args:
        branch: what may be dropped; it is not run when it is.
        shortcut: what always stays. With ``nn.Identity`` the block's input must not be negative, as it is not after
            a relu.
        survival: the chance that the branch is kept.
    """

    def __init__(self, branch: nn.Module, shortcut: nn.Module, *, survival: float) -> None:
        super().__init__()
        check_survival(survival=survival)
        self.branch = branch
        self.shortcut = shortcut
        self.survival = survival

    def forward(self, x: Tensor) -> Tensor:
        """A noisy pass in training mode, the expected branch in evaluation mode."""
        if self.training:
            return self.kept(x) if self.draw() else self.dropped(x)
        return torch.relu(self.shortcut(x) + self.survival * self.branch(x))

    def draw(self) -> bool:
        """Tosses the coin: whether the branch is kept this time."""
        # On the CPU, whatever the model's device: asking a GPU for the answer would wait for all its queued work.
        return self.survival == 1 or bool(torch.rand((), device="cpu") < self.survival)

    def kept(self, x: Tensor) -> Tensor:
        """The block with its branch, unscaled."""
        return self.joined(self.shortcut(x), self.branch(x))

    def dropped(self, x: Tensor) -> Tensor:
        """The block without its branch."""
        return self.joined(self.shortcut(x), None)

    def joined(self, shortcut: Tensor, branch: Tensor | None) -> Tensor:
        """The block's output, from what its shortcut gave and its branch, if that was kept."""
        if branch is not None:
            return torch.relu(shortcut + branch)
        # What comes through an identity comes out of a relu, so another one would change nothing.
        return shortcut if isinstance(self.shortcut, nn.Identity) else torch.relu(shortcut)

    def extra_repr(self) -> str:
        """The survival probability."""
        return f"survival={self.survival:.4g}"


def linear_survival(blocks: int, last: float) -> list[float]:
    """Survival probabilities 1 − l/L·(1 − last) of the blocks l = 1 … L: early blocks, which all others need, stay.

    >>> linear_survival(4, last=0.5)
    [0.875, 0.75, 0.625, 0.5]
    """
    check_counts(blocks=blocks)
    check_survival(last=last)
    return [1 - block / blocks * (1 - last) for block in range(1, blocks + 1)]


def check_survival(**probabilities: float) -> None:
    """Refuses a named survival probability outside (0, 1]."""
    for name, survival in probabilities.items():
        if not 0 < survival <= 1:
            raise ValueError(f"{name} must lie in (0, 1], the chance to be kept, got {survival!r}; 1 drops nothing")
