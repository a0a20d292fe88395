"""Which layers make a network stochastic, in our networks and in other people's, and how to switch on only those."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

from singleshot.sampling.stochastic_depth import StochasticDepthBlock

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
    neither library needs to be installed. A layer of your own is known by an attribute ``is_noise = True``.
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
    with _flags(noise_layers(model).values(), on=True), _FunctionalNoise(model):
        yield


@contextmanager
def noise_off(model: nn.Module) -> Iterator[None]:
    """Within it, noise layers are off, and everything else is as it was."""
    with _flags(noise_layers(model).values(), on=False):
        yield


def noise_on_for_sampling(model: nn.Module) -> AbstractContextManager[None]:
    """In training mode the noise is as the modes say; in evaluation mode it is switched on."""
    return nullcontext() if model.training else noise_on(model)


@contextmanager
def _flags(layers: Iterable[nn.Module], *, on: bool) -> Iterator[None]:
    """The flags of these layers alone: train() would reach a batch norm inside one of them."""
    before = [(layer, layer.training) for layer in layers]
    try:
        for layer, _ in before:
            layer.training = on
        yield
    finally:
        for layer, training in before:
            layer.training = training


class _FunctionalNoise(TorchFunctionMode):
    """Calls a model's functional dropout with training=True, whatever its mode says; so does a graph traced within."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.modules = set(model.modules())

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in FUNCTIONAL_NOISE and self._is_called_by_model():
            # dropout(input, p, training, inplace): handlers are called with whatever form the caller used.
            for name, value in zip(("p", "training", "inplace"), args[1:], strict=False):
                kwargs[name] = value
            args, kwargs["training"] = args[:1], True
        return func(*args, **kwargs)

    def _is_called_by_model(self) -> bool:
        """Whether the module whose forward is running belongs to the model, and has no flag of its own for its noise.

        Another model may be in use meanwhile, and a noise layer does as its flag says.
        """
        frame = sys._getframe(2)
        while frame is not None:
            caller = frame.f_locals.get("self")
            if isinstance(caller, nn.Module):
                return caller in self.modules and not is_noise(caller)
            frame = frame.f_back  # type: ignore[assignment]
        return False


def noise_rate(module: nn.Module) -> float:
    """How strong the noise of a layer is: 0 where it has none."""
    rate: Any = 0
    if _rate_is_an_attribute(type(module)):  # type: ignore[arg-type]
        rate = vars(module).get("p", 0) or vars(module).get("drop_prob", 0) or 0
    elif isinstance(module, StochasticDepthBlock):
        rate = 1 - module.survival
    elif isinstance(module, nn.MultiheadAttention):
        rate = module.dropout
    elif isinstance(module, nn.RNNBase):
        rate = module.dropout if module.num_layers > 1 else 0
    elif isinstance(module, nn.TransformerEncoderLayer):
        # In evaluation mode this layer takes a fused path that knows no dropout: its own flag must be on as well.
        rate = max(noise_rate(child) for child in module.children())
    elif getattr(type(module), "is_noise", False) is True or vars(module).get("is_noise") is True:
        rate = 0.5  # a layer that says so of itself, and need not say how much
    return float(rate)


@cache
def _rate_is_an_attribute(kind: type[nn.Module]) -> bool:
    """Dropout, and what other libraries call stochastic depth; asked of every module in every call, so remembered."""
    names = {parent.__name__ for parent in kind.__mro__}
    return issubclass(kind, nn.modules.dropout._DropoutNd) or bool(names & {"StochasticDepth", "DropPath"})
