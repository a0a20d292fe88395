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

from singleshot.common.files import write_text

State = TypeVar("State", bound="AdditiveState")
Options = dict[str, "int | str"]
Layout = dict[str, tuple[tuple[int, ...], torch.dtype]]

FORMAT_VERSION = 1
HEADER_BYTES = 512  # room for the options of any state when processes compare them


class AdditiveState(ABC):
    """Named sums, int64 or float64, and the options that two states must share to be added.

    A subclass says in `_layout` which sums it keeps; everything else follows from their being sums. The option
    ``classes`` may be 0 as long as no example was seen: the first data says what it is.
    """

    format_name: ClassVar[str]

    def __init__(self, options: Options) -> None:
        self._options = options
        # On the CPU whatever the default device: the sums are few, and not every accelerator has float64.
        layout = self._layout(options)
        self._sums = {name: torch.zeros(shape, dtype=dtype, device="cpu") for name, (shape, dtype) in layout.items()}

    @staticmethod
    @abstractmethod
    def _layout(options: Options) -> Layout:
        """Shape and dtype of every sum the state keeps; a ValueError for options that cannot be."""

    @abstractmethod
    def _is_plausible(self) -> bool:
        """Whether these sums could have come from data."""

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self._options.items())
        return f"<{type(self).__name__} with {options}: {int(self._sums['count'].sum()):,} examples>"

    def reset(self: State) -> State:
        """Forget all examples and return the state; its options stay."""
        options = {name: 0 if name == "classes" else value for name, value in self._options.items()}
        AdditiveState.__init__(self, options)
        return self

    def merge(self: State, other: State) -> State:
        """Add the examples of another state to this one, in place, and return this one."""
        if type(other) is not type(self):
            raise TypeError(f"a {type(self).__name__} merges with another one, got {type(other).__name__}")
        self._agree_on_options(other._options)
        if other._options == self._options:  # otherwise the other one has seen nothing
            self._sums = {name: total + other._sums[name] for name, total in self._sums.items()}
        return self

    def all_reduce(self: State, group: dist.ProcessGroup | None = None) -> State:
        """Add the examples of all processes of the group to this state, in place, and return it.

        Afterwards every process has the sums of all. Call it once: a second call would count each example again.
        """
        device = _collective_device(group)
        for options in _gather_options(self._options, device, group):
            self._agree_on_options(options)
        shared = {name: total.to(device, copy=True) for name, total in self._sums.items()}
        for total in shared.values():
            dist.all_reduce(total, group=group)
        self._sums = {name: total.cpu() for name, total in shared.items()}
        return self

    def copy(self: State) -> State:
        """A state of its own with the same sums."""
        twin = type(self)._with_options(self._options)
        twin.merge(self)
        return twin

    def to_dict(self) -> dict[str, Any]:
        """The sums as plain numbers, exact to the last bit."""
        sums = {name: _to_jsonable(total.tolist()) for name, total in self._sums.items()}
        header = {"format": f"singleshot.{self.format_name}", "version": FORMAT_VERSION, "options": self._options}
        return {**header, "sums": sums}

    @classmethod
    def from_dict(cls: type[State], content: Any) -> State:
        """The state that `to_dict` wrote; anything else is a ValueError that says what is wrong."""
        if not isinstance(content, dict) or content.get("format") != f"singleshot.{cls.format_name}":
            raise ValueError(f'not a saved {cls.__name__}: "format" must be "singleshot.{cls.format_name}"')
        if content.get("version") != FORMAT_VERSION:
            raise ValueError(f"written in version {content.get('version')} of the format, this reads {FORMAT_VERSION}")
        try:
            options = content["options"]
            sums = {name: _loaded(content["sums"][name], *spec) for name, spec in cls._layout(options).items()}
            state = cls._with_options(options)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
            raise ValueError(f"a damaged {cls.__name__}: {error}") from None
        state._sums = sums
        if not (all(bool((total >= 0).all()) for total in sums.values()) and state._is_plausible()):
            raise ValueError(f"a damaged {cls.__name__}: no data gives these sums")
        return state

    def to_json(self) -> str:
        """The state as JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_json(cls: type[State], text: str) -> State:
        """The state that `to_json` wrote; anything else is a ValueError that says what is wrong."""
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not JSON: {error}") from None
        return cls.from_dict(content)

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
    def _with_options(cls: type[State], options: Options) -> State:
        state = cls.__new__(cls)
        AdditiveState.__init__(state, dict(options))
        return state

    def _agree_on_options(self, other: Options) -> None:
        """Raise unless the options are the same; a state without examples takes the other's number of classes."""
        if self._options == other:
            return
        one_is_empty = 0 in (self._options.get("classes"), other.get("classes"))
        rest, other_rest = ({**options, "classes": "classes" in options} for options in (self._options, other))
        if not one_is_empty or rest != other_rest:
            raise ValueError(f"states of different kinds do not merge: {self._options} here and {other} there")
        if not self._options["classes"]:
            AdditiveState.__init__(self, dict(other))


def _collective_device(group: dist.ProcessGroup | None) -> torch.device:
    """Where the group's collectives work: NCCL moves nothing but CUDA tensors."""
    if not (dist.is_available() and dist.is_initialized()):
        raise ValueError("all_reduce needs torch.distributed.init_process_group first")
    return torch.device("cuda" if dist.get_backend(group) == "nccl" else "cpu")


def _gather_options(options: Options, device: torch.device, group: dist.ProcessGroup | None) -> list[Options]:
    """The options of every process, as text of fixed length: they must be compared before any sum can be added."""
    text = json.dumps(options).encode().ljust(HEADER_BYTES)
    mine = torch.tensor(list(text), dtype=torch.uint8, device=device)
    everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(everyone, mine, group=group)
    return [json.loads(bytes(one.tolist())) for one in everyone]


def _to_jsonable(value: Any) -> Any:
    """JSON knows no infinity: it is written as the text float() reads back."""
    if isinstance(value, list):
        return [_to_jsonable(item) for item in value]
    return value if math.isfinite(value) else str(value)


def _loaded(values: Any, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """A sum as it was written: numbers of the right kind, and as many as its shape holds."""
    loaded = torch.tensor(_from_jsonable(values), device="cpu", dtype=None if dtype == torch.int64 else dtype)
    if loaded.numel() == 0 == math.prod(shape):
        return loaded.to(dtype).reshape(shape)
    if loaded.dtype != dtype or tuple(loaded.shape) != shape:
        found = f"{loaded.dtype} of shape {tuple(loaded.shape)}"
        raise ValueError(f"a sum must be {dtype} of shape {shape}, it is {found}")
    return loaded


def _from_jsonable(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_jsonable(item) for item in value]
    return float(value) if isinstance(value, str) else value
