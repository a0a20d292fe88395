"""What is recorded of a cached call, of the tensors that it reads, and of the memory behind them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from singleshot.sampling.torch_calls import VALUES

Key = tuple[Any, ...]


@dataclass(eq=False, slots=True)
class Storage:
    """The memory behind one or more shared tensors."""

    address: int
    maker: Key | None  # the cached call that made it; None for parameters, buffers and inputs
    born: int  # the pass that made it
    tensors: list[Tensor] = field(default_factory=list)  # kept alive, so that no other tensor gets their ids
    readers: set[Key] = field(default_factory=set)  # cached calls
    read_by_noise: bool = False  # whether a call that is not cached reads it
    seen: int = 0  # last write that the current pass has made
    actual: int = 0  # last write in memory


@dataclass(eq=False, slots=True)
class CachedCall:
    """A cached call: its output, the storages it made, and the writes it made to others."""

    output: Any
    made: list[Storage]
    writes: list[tuple[Storage, int]]
    last_used: int  # the number of a pass


@dataclass(eq=False, slots=True)
class Description:
    """What identifies some arguments in a key, the shared storages and the tensors among them."""

    parts: list[Any]
    reads: list[Storage] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    is_shared: bool = True  # whether all are known and none depends on noise

    def add(self, items: Iterable[Any], of_tensor: Mapping[int, Storage]) -> None:
        """Describe these items, too; ``of_tensor`` has the storages of shared tensors by their ids."""
        for item in items:
            kind = type(item)
            if kind in VALUES:
                self.parts += (kind, item)
            elif item is None or item is Ellipsis:
                self.parts.append(item)
            elif kind is tuple or kind is list:
                self.parts += (kind, len(item))
                self.add(item, of_tensor)
            elif isinstance(item, Tensor):
                self.tensors.append(item)
                storage = of_tensor.get(id(item))
                if storage is None:
                    self.is_shared = False
                else:
                    self.parts += (id(item), storage.seen)
                    self.reads.append(storage)
            elif isinstance(item, (tuple, list, dict)):
                self.parts += (kind, len(item))
                self.add(item.items() if isinstance(item, dict) else item, of_tensor)
            elif isinstance(item, VALUES):  # of a subclass
                self.parts += (kind, item)
            elif kind is slice:
                self.parts.append(slice)
                self.add((item.start, item.stop, item.step), of_tensor)
            else:
                self.is_shared = False
