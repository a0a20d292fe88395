"""Running a model without its buffers noticing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn


@contextmanager
def frozen_buffers(model: nn.Module) -> Iterator[None]:
    """Within it, the model works on copies of its buffers: running statistics and the like are not recorded."""
    kept = [(module, dict(module._buffers)) for module in model.modules() if module._buffers]
    try:
        for module, buffers in kept:
            module._buffers.update({name: _copy(buffer) for name, buffer in buffers.items()})
        yield
    finally:
        for module, buffers in kept:
            module._buffers.update(buffers)


def is_lazy(tensor: Tensor) -> bool:
    """Whether a lazy module has yet to learn this tensor's shape."""
    return isinstance(tensor, (nn.UninitializedParameter, nn.UninitializedBuffer))


def _copy(buffer: Tensor | None) -> Tensor | None:
    return buffer if buffer is None or is_lazy(buffer) else buffer.clone()
