"""Which layers make a network stochastic, and how to switch on those and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from types import CodeType, FunctionType
from typing import Any

import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

from singleshot.sampling.state import GENERATOR_LOCK, OnlyInThisThread, replaced, used_by_this_thread
from singleshot.sampling.stochastic_depth import StochasticDepthBlock

FUNCTIONAL_NOISE: tuple[Callable[..., Any], ...] = (
    F.dropout,
    F.dropout1d,
    F.dropout2d,
    F.dropout3d,
    F.alpha_dropout,
    F.feature_alpha_dropout,
)
ADVICE = (
    "add noise with singleshot.add_noise(model), with a layer such as nn.Dropout(0.2) before a fully connected layer, "
    "or with stochastic depth around its residual blocks, and train with it"
)


def is_noise(module: nn.Module) -> bool:
    """Whether this layer itself draws random numbers when its ``training`` flag is set.

    DropPath (timm) and StochasticDepth (torchvision) are recognised by class name and attribute, so neither library
    needs to be installed. A custom layer declares itself with the attribute ``is_noise = True``.
    """
    return noise_rate(module) > 0


def noise_rate(module: nn.Module) -> float:
    """Drop rate of a layer; 0 if it draws nothing."""
    rate: Any = 0
    if _has_rate_attribute(type(module)):  # type: ignore[arg-type]
        rate = vars(module).get("p", 0) or vars(module).get("drop_prob", 0) or 0
    elif isinstance(module, StochasticDepthBlock):
        rate = 1 - module.survival
    elif isinstance(module, nn.MultiheadAttention):
        rate = module.dropout
    elif isinstance(module, nn.RNNBase):
        rate = module.dropout if module.num_layers > 1 else 0
    elif isinstance(module, nn.TransformerEncoderLayer):
        # In evaluation mode this layer takes a fused path without dropout, so its own flag must be on as well.
        rate = max(noise_rate(child) for child in module.children())
    elif getattr(type(module), "is_noise", False) is True or vars(module).get("is_noise") is True:
        rate = 0.5  # declared by the layer; the rate itself is unknown
    return float(rate)


@cache
def _has_rate_attribute(kind: type[nn.Module]) -> bool:
    """Dropout and the stochastic depth of other libraries. Cached: asked of every module in every call."""
    names = {parent.__name__ for parent in kind.__mro__}
    return issubclass(kind, nn.modules.dropout._DropoutNd) or bool(names & {"StochasticDepth", "DropPath"})


def noise_layers(model: nn.Module) -> dict[str, nn.Module]:
    """The noise layers of a model by name."""
    return {name: module for name, module in model.named_modules() if is_noise(module)}


@contextmanager
def stochastic(model: nn.Module) -> Iterator[None]:
    """Switch on the noise of a model and nothing else: batch norm in evaluation mode stays in evaluation mode.

    This includes functional dropout (``F.dropout(x, p, self.training)``) in the model's own code, and custom layers
    with the attribute ``is_noise = True``. All modes are restored on exit. The model belongs to this thread meanwhile:
    in another thread its noise layers raise RuntimeError.

    >>> model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5)).eval()
    >>> with stochastic(model):
    ...     print(model[0].training, model[1].training)
    False True
    >>> model[1].training
    False
    """
    modules = list(model.modules())
    check_noise(model, modules)
    if not any(is_noise(module) or has_functional_noise(module) for module in modules):
        raise ValueError(no_noise_message(model))
    with used_by_this_thread(model, modules, again=True), noise_on(modules):
        yield


@contextmanager
def noise_on(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Set the flags of the noise layers among these modules, and force functional dropout in their code.

    Only these flags: ``train()`` would reach a batch norm inside a noise layer.
    """
    before = [(module, module.training) for module in modules if is_noise(module)]
    # A function mode costs a few microseconds in every torch call, so there is one only if it has something to do.
    needs_mode = any(has_functional_noise(module) for module in modules)
    with ExitStack() as stack:
        # Guarded before they are switched on, and until they are off again: the model, and its noise layers for a pass
        # that has begun already or that belongs to another model. The layers of a compiled model are part of its code.
        is_compiled = any(map(runs_compiled_code, modules))
        layers = [] if is_compiled else [layer for layer, _ in before]
        for guarded in dict.fromkeys([modules[0], *layers]):
            stack.enter_context(replaced(guarded, "forward", OnlyInThisThread(guarded)))
        for layer, training in before:
            stack.callback(setattr, layer, "training", training)
            layer.training = True
        if needs_mode:
            stack.enter_context(_FunctionalNoise(modules))
        yield


def check_noise(model: nn.Module, modules: Sequence[nn.Module]) -> None:
    """Raise for a noise layer that drops everything, and for a model in training mode whose noise is all off."""
    kind = type(model).__name__
    rates = [(module, noise_rate(module)) for module in modules]
    if any(rate >= 1 for _, rate in rates):
        name = next(name for name, layer in model.named_modules() if noise_rate(layer) >= 1)
        raise ValueError(f"noise layer {name!r} of {kind} has rate 1, which drops everything; use a lower rate")
    layers = [module for module, rate in rates if rate > 0]
    if model.training and layers and not any(layer.training for layer in layers):
        raise ValueError(
            f"{kind} is in training mode, but all its noise layers are in evaluation mode (is it a wrapper around a "
            f"model in evaluation mode?). Call .eval() on the {kind} for Monte Carlo inference, .train() to train it."
        )


def no_noise_message(model: nn.Module) -> str:
    """Explain that all passes of this model would be equal."""
    silent = [part for part in model.modules() if isinstance(part, nn.modules.dropout._DropoutNd)]
    why = f" (its {type(silent[0]).__name__} has rate 0)" if silent and not noise_layers(model) else ""
    return f"{type(model).__name__} has no noise{why}: every pass would be the same. To sample it, {ADVICE}."


def is_torchs_own(kind: type) -> bool:
    """Whether a class of modules is one of torch.nn's."""
    return kind.__module__.startswith("torch.nn.modules.")


def runs_compiled_code(module: nn.Module) -> bool:
    """Whether calling this module runs code made by torch.compile."""
    return module._compiled_call_impl is not None or type(module).__name__ == "OptimizedModule"


def has_functional_noise(module: nn.Module) -> bool:
    """Whether the methods of a module, or functions that they call by name, use a functional dropout.

    Torch's own classes are known by `is_noise`. The code of a scripted module cannot be inspected and counts as having
    none.
    """
    return not is_torchs_own(type(module)) and _uses_functional_dropout(type(module))  # type: ignore[arg-type]


@cache
def _uses_functional_dropout(kind: type[nn.Module]) -> bool:
    names = {function.__name__ for function in FUNCTIONAL_NOISE}
    functions = [
        value
        for parent in kind.__mro__
        if parent is not nn.Module and parent is not object and not is_torchs_own(parent)
        for value in vars(parent).values()
        if isinstance(value, FunctionType)
    ]
    seen: set[CodeType] = set()
    while functions:
        function = functions.pop()
        todo = [function.__code__]
        while todo:
            code = todo.pop()
            if code in seen:
                continue
            seen.add(code)
            known = [function.__globals__.get(name) for name in code.co_names]
            if any(value in FUNCTIONAL_NOISE for value in known if isinstance(value, FunctionType)):
                return True
            # self.dropout(x) has the name, too: the functional module must be in reach.
            if names & set(code.co_names) and (F in known or "functional" in code.co_names):
                return True
            todo += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
            called = [value for value in known if isinstance(value, FunctionType)]
            functions += [value for value in called if value.__module__.split(".")[0] != "torch"]
    return False


class _FunctionalNoise(TorchFunctionMode):
    """Call the functional dropout of a model with ``training=True``, whatever the module's flag says."""

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        super().__init__()
        self.modules = set(modules)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in FUNCTIONAL_NOISE and self._is_called_by_model():
            # dropout(input, p, training, inplace), by position or by name
            named = dict(zip(("p", "training", "inplace"), args[1:], strict=False))
            with GENERATOR_LOCK.hold(alone=False):
                return func(args[0] if args else kwargs.pop("input"), **{**kwargs, **named, "training": True})
        return func(*args, **kwargs)

    def _is_called_by_model(self) -> bool:
        """Whether the running forward belongs to the model. A noise layer follows its own flag."""
        caller = calling_module()
        return caller is not None and caller in self.modules and not is_noise(caller)


def calling_module() -> nn.Module | None:
    """The innermost module whose method is on the call stack."""
    frame = sys._getframe(1)
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, nn.Module):
            return caller
        frame = frame.f_back  # type: ignore[assignment]
    return None
