"""Which layers make a network stochastic, in our networks and in other people's, and how to switch on only those."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

from singleshot.models.stochastic_depth import StochasticDepthBlock

FUNCTIONAL_NOISE: tuple[Callable[..., Any], ...] = (
    F.dropout,
    F.dropout1d,
    F.dropout2d,
    F.dropout3d,
    F.alpha_dropout,
    F.feature_alpha_dropout,
)


def is_noise(module: nn.Module) -> bool:
    """Whether this layer itself draws random numbers when its ``training`` flag is set.

    DropPath (as timm writes it) and StochasticDepth (as torchvision writes it) are known by class name and attribute:
    neither library needs to be installed.
    """
    return noise_rate(module) > 0


def noise_layers(model: nn.Module) -> dict[str, nn.Module]:
    """The noise layers of a model by name."""
    return {name: module for name, module in model.named_modules() if is_noise(module)}


def noise_is_on(module: nn.Module) -> bool:
    """Whether this layer, or one inside it, would draw random numbers in the next forward pass."""
    return any(part.training and is_noise(part) for part in module.modules())


@contextmanager
def noise_on(model: nn.Module) -> Iterator[None]:
    """Within it, noise layers and functional dropout are on, and everything else is as it was."""
    layers = list(noise_layers(model).values())
    before = [layer.training for layer in layers]
    try:
        for layer in layers:
            layer.training = True  # the flag of this layer alone; train() would reach a batch norm inside it
        with _FunctionalNoise():
            yield
    finally:
        for layer, training in zip(layers, before, strict=True):
            layer.training = training


def noise_on_for_sampling(model: nn.Module) -> AbstractContextManager[None]:
    """In training mode the noise is as the modes say; in evaluation mode it is switched on."""
    return nullcontext() if model.training else noise_on(model)


class _FunctionalNoise(TorchFunctionMode):
    """Calls functional dropout with training=True, whatever the caller's mode says; a graph traced within has it so."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in FUNCTIONAL_NOISE:
            # dropout(input, p, training, inplace): handlers are called with whatever form the caller used.
            for name, value in zip(("p", "training", "inplace"), args[1:], strict=False):
                kwargs[name] = value
            args, kwargs["training"] = args[:1], True
        return func(*args, **kwargs)


def noise_rate(module: nn.Module) -> float:
    """How strong the noise of a layer is: 0 where it has none."""
    names = {cls.__name__ for cls in type(module).__mro__}
    rate: Any = 0
    if isinstance(module, StochasticDepthBlock):
        rate = 1 - module.survival
    elif isinstance(module, nn.modules.dropout._DropoutNd) or "StochasticDepth" in names:
        rate = getattr(module, "p", 0)
    elif "DropPath" in names:
        rate = getattr(module, "drop_prob", 0) or 0
    elif isinstance(module, nn.MultiheadAttention):
        rate = module.dropout
    elif isinstance(module, nn.RNNBase):
        rate = module.dropout if module.num_layers > 1 else 0
    elif isinstance(module, nn.TransformerEncoderLayer):
        # In evaluation mode this layer takes a fused path that knows no dropout: its own flag must be on as well.
        rate = max(noise_rate(child) for child in module.children())
    return float(rate)
