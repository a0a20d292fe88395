"""A model's forward as a graph, if a graph does what the forward does.

Tracing runs the model's own code once, with stand-ins for tensors. Whatever that code decides in Python is decided then
and for good, so a model whose code does more than compute from its input is refused: one that draws random numbers in
Python, changes the gradient or autocast mode, or keeps something on itself.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn

from singleshot.sampling.noise import is_noise
from singleshot.sampling.state import is_lazy
from singleshot.sampling.stochastic_depth import StochasticDepthBlock


class NotTraceableError(Exception):
    """Says why a model has no graph that can be shared between passes."""


class OneInput(nn.Module):
    """The model as a function of x alone: what its forward takes besides keeps its default."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Any:
        """What the model makes of x."""
        return self.model(x)


def trace_forward(root: OneInput) -> fx.Graph:
    """The graph of one forward pass; `NotTraceableError` where it cannot be had or would not be the same."""
    _refuse_hooks(root.model, type(root.model).__name__)
    with _unchanged(root.model), _no_random_numbers():
        try:
            graph = _Tracer().trace(root)
        except NotTraceableError:
            raise
        except Exception as error:  # tracing runs the user's own code, which may fail in any way
            raise NotTraceableError(f"torch.fx cannot trace it ({_first_line(error)})") from None
    for node in graph.nodes:
        if node.op == "get_attr" and str(node.target).startswith("_tensor_constant"):
            raise NotTraceableError("its forward makes a tensor that does not depend on the input")
    return graph


class _Tracer(fx.Tracer):
    """Stops at layers that are one idea: torch's own, and noise layers, whose branches a graph cannot hold."""

    def __init__(self) -> None:
        super().__init__()
        self.modes = _modes()

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return is_leaf(m)

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        if _modes() != self.modes:
            raise NotTraceableError("its forward changes the gradient or autocast mode, which a graph does not hold")
        return super().create_node(*args, **kwargs)


def is_leaf(module: nn.Module) -> bool:
    """Whether the graph calls this module as a whole."""
    of_torch = type(module).__module__.startswith("torch.nn") and not isinstance(module, nn.Sequential)
    return of_torch or is_noise(module) or isinstance(module, StochasticDepthBlock)


def _modes() -> tuple[bool, ...]:
    devices = ("cpu", "cuda")
    return torch.is_grad_enabled(), *(torch.is_autocast_enabled(device) for device in devices)


def _refuse_hooks(module: nn.Module, name: str) -> None:
    """A graph runs the leaves and passes over the modules around them, and with those over their hooks.

    So does the tree over the blocks it keeps or drops; within a leaf everything is called as ever.
    """
    passed_over = not is_leaf(module) or isinstance(module, StochasticDepthBlock)
    if passed_over and hook_count(module):
        raise NotTraceableError(f"module {name!r} has hooks, which would be skipped")
    if not is_leaf(module):
        for child_name, child in module.named_children():
            _refuse_hooks(child, child_name)


def hook_count(module: nn.Module) -> int:
    """How many hooks look on when the module is called, or its gradient computed."""
    kinds = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return sum(len(kind) for kind in kinds)


@contextmanager
def _unchanged(model: nn.Module) -> Iterator[None]:
    """Put back whatever tracing left on the model, and refuse a model on which it left something."""
    before = {module: {name: _shallow(value) for name, value in vars(module).items()} for module in model.modules()}
    buffers = [(buffer, buffer._version, buffer.clone()) for buffer in model.buffers() if not is_lazy(buffer)]
    yield
    written = [(buffer, copy) for buffer, version, copy in buffers if buffer._version != version]
    with torch.no_grad():
        for buffer, copy in written:
            buffer.copy_(copy)
    changed = bool(written)
    for module, attributes in before.items():
        for name in {*vars(module), *attributes}:
            kept, now = attributes.get(name), vars(module).get(name)
            if name in attributes and name in vars(module) and _same(kept, now):
                continue
            changed = True
            if name in attributes:
                vars(module)[name] = kept
            else:
                del vars(module)[name]
    if changed:
        raise NotTraceableError("its forward keeps something on the model, which a graph would not")


def _shallow(value: Any) -> Any:
    return type(value)(value) if type(value) in (list, dict, set) else value


def _same(before: Any, now: Any) -> bool:
    if type(before) in (list, set) and type(now) is type(before):
        return len(before) == len(now) and all(a is b for a, b in zip(before, now, strict=True))
    if type(before) is dict and type(now) is dict:
        return before.keys() == now.keys() and all(value is now[key] for key, value in before.items())
    return before is now or (type(before) in (int, float, str, bool) and before == now)


@contextmanager
def _no_random_numbers() -> Iterator[None]:
    """Refuse code that draws in Python: the draw would be the same in every pass and for ever after."""
    numpy = sys.modules.get("numpy")
    torch_state, python_state = torch.get_rng_state(), random.getstate()
    numpy_state = numpy.random.get_state() if numpy is not None else None
    yield
    moved = not torch.equal(torch_state, torch.get_rng_state()) or python_state != random.getstate()
    if numpy is not None and numpy_state is not None:
        now = numpy.random.get_state()
        moved |= now[2] != numpy_state[2] or bool((now[1] != numpy_state[1]).any())
        numpy.random.set_state(numpy_state)
    torch.set_rng_state(torch_state)
    random.setstate(python_state)
    if moved:
        raise NotTraceableError("its forward draws random numbers in Python code, outside of any layer")


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
