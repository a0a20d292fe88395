"""A state made of sums: it merges by addition, across batches, processes and files."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from singleshot.files import write_text

State = TypeVar("State", bound="AdditiveState")

FORMAT_VERSION = 1


class AdditiveState(ABC):
    """Named sums, int64 or float64, and the sizes that two states must share to be added.

    A subclass says in `_zero_sums` which sums it keeps; everything else follows from their being sums.
    The size ``classes`` may be 0 as long as no example was seen.
    """

    kind: ClassVar[str]

    def __init__(self, sizes: dict[str, int]) -> None:
        self._sizes = sizes
        self._sums = self._zero_sums(sizes)

    @staticmethod
    @abstractmethod
    def _zero_sums(sizes: dict[str, int]) -> dict[str, Tensor]:
        """Every sum the state keeps, at 0."""

    def merge(self, other: AdditiveState) -> None:
        """Add what another state has seen; that one is left as it is."""
        if type(other) is not type(self):
            raise ValueError(f"a {type(self).__name__} merges with another one, got {type(other).__name__}")
        if other._sizes != self._sizes:
            if not self._agree_on_classes(other._sizes):
                raise ValueError(f"states of different sizes do not merge: {self._sizes} here and {other._sizes} there")
            if not other._sizes["classes"]:
                return  # it has seen nothing
            self._learn_classes(other._sizes["classes"])
        for name, total in self._sums.items():
            total += other._sums[name]  # noqa: PLW2901  (in place: the tensor in the dictionary grows)

    def all_reduce(self: State, group: dist.ProcessGroup | None = None) -> State:
        """A new state with what all processes of the group have seen; this one is left as it is."""
        device = _collective_device(group)
        names = sorted(self._sizes)
        mine = torch.tensor([self._sizes[name] for name in names], device=device)
        everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
        dist.all_gather(everyone, mine, group=group)
        whole = self.copy()
        for sizes in everyone:  # an empty state takes the sizes of the others, and a mismatch raises in every process
            whole.merge(type(self)._of_sizes(dict(zip(names, sizes.tolist(), strict=True))))
        for name, total in whole._sums.items():
            shared = total.to(device)
            dist.all_reduce(shared, group=group)
            whole._sums[name] = shared.cpu()
        return whole

    def copy(self: State) -> State:
        """A state of its own with the same sums."""
        twin = type(self)._of_sizes(dict(self._sizes))
        twin._sums = {name: total.clone() for name, total in self._sums.items()}
        return twin

    def to_json(self) -> str:
        """The sums as one JSON object, exact to the last bit."""
        sums = {name: _to_jsonable(total.tolist()) for name, total in self._sums.items()}
        header = {"format": f"singleshot.{self.kind}", "version": FORMAT_VERSION, "sizes": self._sizes}
        return json.dumps({**header, "sums": sums}, allow_nan=False)

    @classmethod
    def from_json(cls: type[State], text: str) -> State:
        """The state that `to_json` wrote; anything else is a ValueError that says what is wrong."""
        try:
            content = json.loads(text)
        except ValueError as error:
            raise ValueError(f"not JSON: {error}") from None
        if not isinstance(content, dict) or content.get("format") != f"singleshot.{cls.kind}":
            raise ValueError(f'not a saved {cls.__name__}: "format" must be "singleshot.{cls.kind}"')
        if content.get("version") != FORMAT_VERSION:
            raise ValueError(f"written in version {content.get('version')} of the format, this reads {FORMAT_VERSION}")
        try:
            sizes = {str(name): int(size) for name, size in content["sizes"].items()}
            with torch.device("meta"):  # sizes from outside allocate nothing before they are believed
                expected = cls._zero_sums(sizes)
            sums = {name: _like(total, content["sums"][name]) for name, total in expected.items()}
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
            raise ValueError(f"a damaged {cls.__name__}: {error}") from None
        if not all(bool((total >= 0).all()) for total in sums.values()):
            raise ValueError(f"a damaged {cls.__name__}: every sum must be 0 or more")
        state = cls._of_sizes(sizes)
        state._sums = sums
        return state

    def save(self, path: str | Path) -> None:
        """Write the state to a JSON file, atomically."""
        write_text(Path(path), self.to_json())

    @classmethod
    def load(cls: type[State], path: str | Path) -> State:
        """Read the state that `save` wrote."""
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    @classmethod
    def _of_sizes(cls: type[State], sizes: dict[str, int]) -> State:
        state = cls.__new__(cls)
        AdditiveState.__init__(state, sizes)
        return state

    def _learn_classes(self, classes: int) -> None:
        """Take the number of classes from the first data; the sums that depend on it are still empty."""
        self._sizes = {**self._sizes, "classes": classes}
        self._sums = {**self._zero_sums(self._sizes), **{n: t for n, t in self._sums.items() if t.numel()}}

    def _agree_on_classes(self, other: dict[str, int]) -> bool:
        """Whether the sizes differ only in that one of the two states has seen no example yet."""
        if 0 not in (self._sizes.get("classes"), other.get("classes")):
            return False
        return self._sizes.keys() == other.keys() and {**self._sizes, "classes": 0} == {**other, "classes": 0}


def _collective_device(group: dist.ProcessGroup | None) -> torch.device:
    """Where the group's collectives work: NCCL moves nothing but CUDA tensors."""
    if not (dist.is_available() and dist.is_initialized()):
        raise ValueError("all_reduce needs torch.distributed.init_process_group first")
    return torch.device("cuda" if dist.get_backend(group) == "nccl" else "cpu")


def _to_jsonable(value: Any) -> Any:
    """JSON knows no infinity: it is written as the text float() reads back."""
    if isinstance(value, list):
        return [_to_jsonable(item) for item in value]
    return value if math.isfinite(value) else str(value)


def _from_jsonable(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_jsonable(item) for item in value]
    return float(value) if isinstance(value, str) else value


def _like(zeros: Tensor, values: Any) -> Tensor:
    loaded = torch.tensor(_from_jsonable(values), dtype=zeros.dtype)
    if loaded.shape != zeros.shape:
        raise ValueError(f"a sum has shape {tuple(loaded.shape)} where {tuple(zeros.shape)} is needed")
    return loaded
