"""Running a model without its buffers noticing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
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


@contextmanager
def random_state(seed: int | None, x: Tensor) -> Iterator[None]:
    """With a seed, torch's random state is as it was in the end; without, it is put back only after an error."""
    devices = [x.device] if x.device.type == "cuda" else []
    before = torch.get_rng_state(), [torch.cuda.get_rng_state(device) for device in devices]
    finished = False
    try:
        if seed is not None:
            torch.manual_seed(seed)
        yield
        finished = seed is None
    finally:
        if not finished:
            torch.set_rng_state(before[0])
            for device, state in zip(devices, before[1], strict=True):
                torch.cuda.set_rng_state(state, device)
