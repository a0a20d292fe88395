"""The same masks in every strategy: each noise layer draws those of pass t from a seed made of its name and t.

A layer called with the T·B rows of a repeated batch works on them a pass at a time; a layer called with B rows is in
its first pass the first time it is called, in its second the second time, and so on.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from singleshot.models import StochasticDepthBlock
from singleshot.sampling import noise_layers


@contextmanager
def injected_masks(model: nn.Module, passes: int, rows: int) -> Iterator[None]:
    """Plans are to be made before: making one runs the model a few times."""
    calls: Counter[str] = Counter()
    layers = noise_layers(model)
    outermost = {
        name: layer for name, layer in layers.items() if not any(name.startswith(f"{other}.") for other in layers)
    }
    with ExitStack() as stack:
        if not layers:  # otherwise the layers' own calls of F.dropout would be taken for the model's
            stack.enter_context(_InjectedFunctional(calls, passes, rows))
        for name, layer in outermost.items():
            if isinstance(layer, StochasticDepthBlock):
                stack.callback(delattr, layer, "draw")
                layer.draw = _coin(name, layer.survival, calls)  # type: ignore[method-assign]
            else:
                stack.callback(delattr, layer, "forward")
                layer.forward = _seeded(name, layer.forward, calls, passes, rows)
        yield


def _seed(name: str, number: int) -> None:
    torch.manual_seed(zlib.crc32(f"{name}/{number}".encode()))


def _coin(name: str, survival: float, calls: Counter[str]) -> Callable[[], bool]:
    def draw() -> bool:
        calls[name] += 1
        _seed(name, calls[name] - 1)
        return bool(torch.rand(()) < survival)

    return draw


def _seeded(name: str, forward: Callable[..., Any], calls: Counter[str], passes: int, rows: int) -> Callable[..., Any]:
    def seeded_forward(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if len(x) == rows:
            calls[name] += 1
            _seed(name, calls[name] - 1)
            return forward(x, *args, **kwargs)
        assert len(x) == passes * rows
        outputs = []
        for number in range(passes):
            _seed(name, number)
            part = [a[number * rows : (number + 1) * rows] if isinstance(a, Tensor) else a for a in (x, *args)]
            outputs.append(forward(*part, **kwargs))
        if isinstance(outputs[0], tuple):
            return torch.cat([output[0] for output in outputs]), None
        return torch.cat(outputs)

    return seeded_forward


class _InjectedFunctional(TorchFunctionMode):
    """For models whose forward calls F.dropout once and has no noise layers."""

    def __init__(self, calls: Counter[str], passes: int, rows: int) -> None:
        super().__init__()
        self.options = (calls, passes, rows)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.dropout and kwargs.get("training", len(args) > 2 and args[2]) and isinstance(args[0], Tensor):
            return _seeded("functional", func, *self.options)(*args, **kwargs)
        return func(*args, **kwargs)
