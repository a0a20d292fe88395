"""Modules of torch as one cached call each, at no cost per torch call inside them.

`shared_modules` replaces, during a call to `sample`, the ``forward`` of the largest parts of a model that consist of
torch's own modules without noise. Such a part runs without `SharedCalls` looking up the calls inside it, and its
output is cached by its inputs, modes and weights. All custom code runs in every pass.

Batch norm is always a cached call of its own, so that a batch shared by several passes is recorded once in the running
statistics.
"""

from __future__ import annotations

import copy
import operator
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode, _pop_mode_temporarily

from singleshot.sampling.cached_calls import Description
from singleshot.sampling.noise import is_noise, is_torchs_own, runs_compiled_code
from singleshot.sampling.sharing import SharedCalls
from singleshot.sampling.state import is_lazy, replaced
from singleshot.sampling.stochastic_depth import StochasticDepthBlock

_CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)
NORMS = nn.modules.batchnorm._NormBase
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@contextmanager
def shared_modules(model: nn.Module, sharing: SharedCalls) -> Iterator[None]:
    """Run modules without noise as single cached calls of ``sharing``, in this thread."""
    single, sequences = _divide(model)
    with ExitStack() as stack:
        for module in single:
            # module.compile() leaves forward as it was, and is called instead of it
            name = "forward" if module._compiled_call_impl is None else "_compiled_call_impl"
            stack.enter_context(_shared(module, name, sharing))
        for sequence, parts in sequences.items():
            stack.enter_context(replaced(sequence, "forward", _forward_through(parts)))
        for block in model.modules():
            parts = list(block.modules())[1:] if isinstance(block, StochasticDepthBlock) else []
            if parts and not any(map(_must_be_inspected, parts)):  # a block that is kept is one call
                stack.enter_context(_shared(block, "kept", sharing))
        yield


@contextmanager
def _shared(module: nn.Module, name: str, sharing: SharedCalls) -> Iterator[None]:
    forward = _SharedForward(module, getattr(module, name), sharing)
    with replaced(module, name, forward):
        try:
            yield
        finally:
            forward.values = []  # it holds forward itself: such a cycle would keep all activations alive


def _forward_through(parts: list[nn.Module]) -> Callable[[Any], Any]:
    def forward(input: Any) -> Any:
        for part in parts:
            input = part(input)
        return input

    return forward


class _SharedForward:
    """The forward of a module as one cached call."""

    def __init__(self, module: nn.Module, original: Any, sharing: SharedCalls) -> None:
        self.original = original
        self.module = module
        self.sharing = sharing
        self.thread = threading.get_ident()
        self.parts = list(module.modules()) if module._modules else [module]
        self.values: list[Any] = []
        self.dropped = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        is_active = _get_current_function_mode() is self.sharing  # type: ignore[no-untyped-call]
        if not is_active or threading.get_ident() != self.thread:
            return self.original(*args, **kwargs)
        with _pop_mode_temporarily():  # the torch calls inside are not looked up one by one
            return self.sharing.call(self.module, self.original, args, kwargs, self._state())

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copy.deepcopy(self.original, memo)

    def _state(self) -> Description:
        """What the output depends on besides the input: modes, weights, and tensors that were set as attributes."""
        values: list[Any] = []
        for part in self.parts:
            values += vars(part).values()
            values += part._parameters.values()
            if not isinstance(part, NORMS):
                values += part._buffers.values()
        # The values seen last are kept alive: one that is identical has not been replaced.
        is_unchanged = len(values) == len(self.values) and all(map(operator.is_, values, self.values))
        if not is_unchanged or self.sharing.dropped != self.dropped:
            relevant = [value for value in values if isinstance(value, (Tensor, int, float))]
            self.values, self.dropped = values, self.sharing.dropped
            self.state = self.sharing.describe(relevant)
            if any(storage.maker is not None for storage in self.state.reads):
                self.values = []  # such a tensor may be written to in a pass
        return self.state


def _divide(model: nn.Module) -> tuple[list[nn.Module], dict[nn.Module, list[nn.Module]]]:
    """Find what can be run as one call.

    Returns:
        The largest parts of the model that can be run as one call, every compiled part and every batch norm; and the
        parts of each ``nn.Sequential`` with noise, in which consecutive modules without noise are joined.
    """
    if nn.modules.module._global_forward_hooks or nn.modules.module._global_forward_pre_hooks:
        return [module for module in model.modules() if isinstance(module, NORMS)], {}
    found: list[nn.Module] = []
    sequences: dict[nn.Module, list[nn.Module]] = {}
    visited: dict[nn.Module, bool] = {}

    def can_be_one_call(module: nn.Module) -> bool:
        if module in visited:
            return visited[module]
        visited[module] = False  # for a module that contains itself
        if runs_compiled_code(module) or isinstance(module, torch.jit.ScriptModule):
            found.extend([module] if runs_compiled_code(module) else [])
            return False
        if isinstance(module, NORMS):
            found.append(module)
        children = list(module.children())
        inside = [can_be_one_call(child) for child in children]  # all of them, to find what is below
        visited[module] = all(inside) and not any(map(_has_hooks, children)) and not _must_be_inspected(module)
        if not visited[module] or module is model:
            found.extend(part for child in children if visited[child] for part in _called(child))
            if type(module) is nn.Sequential:
                sequences[module] = _joined(module, visited)
                found.extend(set(sequences[module]) - set(children))
        return visited[module]

    can_be_one_call(model)
    return list(dict.fromkeys(found)), sequences


def _joined(sequence: nn.Sequential, can_be_one_call: dict[nn.Module, bool]) -> list[nn.Module]:
    parts: list[nn.Module] = []
    for joinable, group in groupby(sequence, lambda child: can_be_one_call[child] and not _has_hooks(child)):
        children = list(group)
        parts += [nn.Sequential(*children)] if joinable and len(children) > 1 else children
    return parts


def _has_hooks(module: nn.Module) -> bool:
    return any(getattr(module, hooks) for hooks in _HOOKS)


def _called(module: nn.Module) -> Iterator[nn.Module]:
    """The module, or what it holds if it is a container that is never called."""
    if isinstance(module, _CONTAINERS):
        for child in module.children():
            yield from _called(child)
    else:
        yield module


def _must_be_inspected(module: nn.Module) -> bool:
    """Whether the calls inside this module must be looked up one by one, because it is custom code or has noise."""
    return (
        not is_torchs_own(type(module))
        or isinstance(module, nn.RNNBase)  # keeps its weights in a list of its own, too
        or _has_hooks(module)
        or (module.training and is_noise(module))
        or any(is_lazy(tensor) for tensor in module._parameters.values() if tensor is not None)
        or (torch.is_inference_mode_enabled() and getattr(module, "inplace", False))  # writes leave no version there
    )
