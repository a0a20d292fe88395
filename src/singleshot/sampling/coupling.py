"""Layers in which the rows of a batch depend on each other, and how to run them once per pass on a repeated batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from singleshot.sampling.stochastic_depth import StochasticDepthBlock


def couples_rows(module: nn.Module) -> bool:
    """Whether this layer's output for one row depends on the other rows, or on a coin they share."""
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        return module.training or module.running_mean is None
    if isinstance(module, StochasticDepthBlock):
        return module.training and module.survival < 1
    named = any(cls.__name__ == "StochasticDepth" for cls in type(module).__mro__)
    return named and module.training and getattr(module, "mode", None) == "batch"


@contextmanager
def one_call_per_pass(model: nn.Module, passes: int) -> Iterator[None]:
    """Within it, coupled layers see the T·B rows of a repeated batch as T calls of B rows.

    That is what T separate passes would do: batch statistics of one pass only, and a coin of its own for each pass.
    """
    coupled = _outermost_coupled(model)
    with ExitStack() as restore:
        for module in coupled:
            original = module.forward
            if "forward" in vars(module):
                restore.callback(setattr, module, "forward", original)
            else:
                restore.callback(delattr, module, "forward")
            module.forward = _by_pass(original, passes)
        yield


def _outermost_coupled(module: nn.Module) -> list[nn.Module]:
    """Coupled layers that are not inside another one, whose calls are those of a single pass already."""
    if couples_rows(module):
        return [module]
    return [found for child in module.children() for found in _outermost_coupled(child)]


def _by_pass(forward: Callable[[Tensor], Tensor], passes: int) -> Callable[[Tensor], Tensor]:
    def forward_by_pass(rows: Tensor) -> Tensor:
        return torch.cat([forward(part) for part in rows.chunk(passes)])

    return forward_by_pass
