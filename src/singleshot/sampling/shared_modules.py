"""Whole modules as one shared call: what contains no noise runs once for the same input, at no cost per torch call.

`shared_modules` replaces, for the time of a call to `sample`, the ``forward`` of the outermost modules without noise.
Such a module runs as usual the first time it gets an input, without `SharedCalls` looking at the calls inside it, and
its output is remembered. Forward hooks of the module itself run in every pass. A module whose inner modules have hooks
is left to `SharedCalls`, which lets all Python code run in every pass.

Batch norm is always a shared call of its own. So a batch that several passes share is recorded once in the running
statistics.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode, _pop_mode_temporarily

from singleshot.sampling.noise import has_functional_noise, is_noise, is_torchs_own
from singleshot.sampling.sharing import SharedCalls
from singleshot.sampling.state import is_lazy, replaced
from singleshot.sampling.stochastic_depth import StochasticDepthBlock

_CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)
NORMS = nn.modules.batchnorm._NormBase
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@contextmanager
def shared_modules(model: nn.Module, sharing: SharedCalls, *, trust_code: bool = True) -> Iterator[None]:
    """Run modules without noise as single shared calls of ``sharing``, in this thread.

    Args:
        model: what is sampled.
        sharing: remembers the calls.
        trust_code: whether modules that are not torch's own may be run as one call.
    """
    single, sequences = _divide(model, trust_code)
    with ExitStack() as stack:
        for module in single:
            # module.compile() leaves forward as it was, and is called instead of it
            name = "forward" if module._compiled_call_impl is None else "_compiled_call_impl"
            stack.enter_context(replaced(module, name, _SharedForward(module, getattr(module, name), sharing)))
        for sequence, parts in sequences.items():
            stack.enter_context(replaced(sequence, "forward", _forward_through(parts)))
        for block in model.modules():
            if isinstance(block, StochasticDepthBlock):  # a block that is kept is one call
                stack.enter_context(replaced(block, "kept", _SharedForward(block, block.kept, sharing)))
        yield


def _forward_through(parts: list[nn.Module]) -> Callable[[Any], Any]:
    def forward(input: Any) -> Any:
        for part in parts:
            input = part(input)
        return input

    return forward


class _SharedForward:
    """A module's forward that is looked up before it is run."""

    def __init__(self, module: nn.Module, original: Callable[..., Any], sharing: SharedCalls) -> None:
        self.original = original
        self.module = module
        self.sharing = sharing
        self.thread = threading.get_ident()
        self.is_norm = isinstance(module, NORMS)
        self.parts: list[nn.Module] | None = None  # what the module consists of, known once it runs
        self.is_shared = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        sharing = self.sharing
        is_looking = _get_current_function_mode() is sharing  # type: ignore[no-untyped-call]
        if not (self.is_shared and is_looking and threading.get_ident() == self.thread):
            return self.original(*args, **kwargs)
        with _pop_mode_temporarily():  # the torch calls inside are not looked up one by one
            return sharing.call(self.module, self._run, args, kwargs, is_pure=self._was_pure)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        if self.parts is None:
            self.parts = [] if self.is_norm else list(self.module.modules())
        self.before = self._state()
        return self.original(*args, **kwargs)

    def _was_pure(self) -> bool:
        """Whether the module left its buffers and attributes as they were. If not, look at its calls next time."""
        after = self._state()
        self.is_shared = after == self.before
        if not self.is_shared:
            self.sharing.forget(buffer for part in self.parts or () for buffer in _own_buffers(part))
        return self.is_shared

    def _state(self) -> list[Any]:
        """What a forward might change. Values are compared by identity, tensors by their version."""
        state: list[Any] = []
        for part in self.parts or ():
            state += [buffer._version for buffer in _own_buffers(part)]
            if not is_torchs_own(part):
                state += [id(value) for name, value in vars(part).items() if name != "forward"]
        return state


def _own_buffers(module: nn.Module) -> list[Tensor]:
    if isinstance(module, NORMS):  # running statistics are recorded once, on purpose
        return []
    return [buffer for buffer in module._buffers.values() if buffer is not None and not buffer.is_inference()]


def _divide(model: nn.Module, trust_code: bool) -> tuple[list[nn.Module], dict[nn.Module, list[nn.Module]]]:
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
        if is_compiled(module) or isinstance(module, torch.jit.ScriptModule):
            found.extend([module] if is_compiled(module) else [])
            return False
        if isinstance(module, NORMS):
            found.append(module)
        children = list(module.children())
        inside = [can_be_one_call(child) for child in children]  # all of them, to find what is below
        visited[module] = all(inside) and not any(map(_has_hooks, children)) and not _needs_a_look(module, trust_code)
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


def _needs_a_look(module: nn.Module, trust_code: bool) -> bool:
    """Whether the calls inside this module must be looked at one by one."""
    return (
        (module.training and is_noise(module))
        or any(is_lazy(tensor) for tensor in module._parameters.values() if tensor is not None)
        or has_functional_noise(module)
        or (torch.is_inference_mode_enabled() and getattr(module, "inplace", False))  # writes leave no trace there
        or not (trust_code or is_torchs_own(module))
    )


def is_compiled(module: nn.Module) -> bool:
    """Whether calling this module runs code made by torch.compile."""
    return module._compiled_call_impl is not None or type(module).__name__ == "OptimizedModule"
