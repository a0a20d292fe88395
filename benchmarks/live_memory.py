"""Peak memory of tensors, counted at the dispatcher: exact, and the same on every machine."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary


class _LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.alive: int = 0
        self.peak: int = 0
        self.known = WeakIdKeyDictionary()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self._count(tensor.untyped_storage())
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        if storage in self.known:
            return
        size = storage.nbytes()
        self.known[storage] = size
        self.alive += size
        self.peak = max(self.peak, self.alive)
        weakref.finalize(storage, self._free, size)

    def _free(self, size: int) -> None:
        self.alive -= size


def peak_bytes(run: Callable[[], object]) -> int:
    """Return the peak bytes of the tensors created by the function; existing tensors are not counted."""
    live = _LiveBytes()
    with live:
        run()
    return live.peak
