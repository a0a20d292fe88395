"""Torch's random state: seeded for a while, or put back after an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


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
