"""Base class of metric states made of sums, which merge by addition across batches, processes and files."""

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


class AdditiveState(ABC):
    """Named int64 or float64 sums, and the options that two states must share to be added.

    A subclass defines its sums in `_layout`. The option ``classes`` is 0 until the first batch sets it.
    """

    format_name: ClassVar[str]

    def __init__(self, options: Options) -> None:
        self._options = options
        # Always on the CPU: the sums are small, and not every accelerator has float64.
        layout = self._layout(options)
        self._sums = {name: torch.zeros(shape, dtype=dtype, device="cpu") for name, (shape, dtype) in layout.items()}

    @staticmethod
    @abstractmethod
    def _layout(options: Options) -> Layout:
        """Return shape and dtype of every sum; raise for invalid options."""

    @abstractmethod
    def _is_plausible(self) -> bool:
        """Return whether data could have produced these sums."""

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self._options.items())
        return f"<{type(self).__name__} with {options}: {int(self._sums['count'].sum()):,} examples>"

    def reset(self: State) -> State:
        """Remove all examples, in place, and return the state. The options are kept."""
        options = {name: 0 if name == "classes" else value for name, value in self._options.items()}
        AdditiveState.__init__(self, options)
        return self

    def merge(self: State, other: State) -> State:
        """Add the examples of another state, in place, and return this state. The other state is not changed."""
        if type(other) is not type(self):
            raise TypeError(f"a {type(self).__name__} can only merge with its own type, got {type(other).__name__}")
        self._agree_on_options(other._options)
        if other._options == self._options:  # otherwise the other state is empty
            self._sums = {name: total + other._sums[name] for name, total in self._sums.items()}
        return self

    def all_reduce(self: State, group: dist.ProcessGroup | None = None) -> State:
        """Add the examples of all processes of the group, in place, and return this state.

        Afterwards every process holds the sums of all. A second call would count every example again.
        """
        if not (dist.is_available() and dist.is_initialized()):
            raise ValueError("all_reduce needs torch.distributed.init_process_group first")
        gathered: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(gathered, self._options, group=group)
        for options in gathered:
            self._agree_on_options(options)
        device = "cuda" if dist.get_backend(group) == "nccl" else "cpu"  # NCCL needs CUDA tensors
        shared = {name: total.to(device, copy=True) for name, total in self._sums.items()}
        for total in shared.values():
            dist.all_reduce(total, group=group)
        self._sums = {name: total.cpu() for name, total in shared.items()}
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain numbers, exact to the last bit."""
        sums = {name: _encode(total) for name, total in self._sums.items()}
        header = {"format": f"singleshot.{self.format_name}", "version": FORMAT_VERSION, "options": self._options}
        return {**header, "sums": sums}

    @classmethod
    def from_dict(cls: type[State], content: Any) -> State:
        """Restore a state from `to_dict`; raise ValueError for anything else."""
        if not isinstance(content, dict) or content.get("format") != f"singleshot.{cls.format_name}":
            raise ValueError(f'not a saved {cls.__name__}: "format" must be "singleshot.{cls.format_name}"')
        if content.get("version") != FORMAT_VERSION:
            found = content.get("version")
            raise ValueError(f"unsupported format version {found}; this release reads version {FORMAT_VERSION}")
        try:
            options = content["options"]
            sums = {name: _decode(content["sums"][name], *spec) for name, spec in cls._layout(options).items()}
            state = cls._with_options(options)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
            raise ValueError(f"damaged {cls.__name__}: {error}") from None
        state._sums = sums
        if not (all(bool((~(total < 0)).all()) for total in sums.values()) and state._is_plausible()):
            raise ValueError(f"damaged {cls.__name__}: no data gives these sums")
        return state

    def save(self, path: str | Path) -> None:
        """Write the state to a JSON file, atomically."""
        write_text(Path(path), json.dumps(self.to_dict(), allow_nan=False))

    @classmethod
    def load(cls: type[State], path: str | Path) -> State:
        """Read a state written by `save`; raise ValueError for any other file."""
        try:
            return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}: {error}") from None

    @classmethod
    def _with_options(cls: type[State], options: Options) -> State:
        state = cls.__new__(cls)
        AdditiveState.__init__(state, dict(options))
        return state

    def _agree_on_options(self, other: Options) -> None:
        """Raise unless the options are equal; an empty state adopts the other's number of classes."""
        if self._options == other:
            return
        one_is_empty = 0 in (self._options.get("classes"), other.get("classes"))
        rest, other_rest = ({**options, "classes": "classes" in options} for options in (self._options, other))
        if not one_is_empty or rest != other_rest:
            raise ValueError(f"cannot merge states with different options: {self._options} and {other}")
        if not self._options["classes"]:
            AdditiveState.__init__(self, dict(other))


def _encode(total: Tensor) -> Any:
    """Return a sum as numbers; an infinite or unknown (NaN) NLL, which JSON cannot hold, becomes text for float()."""
    return total.tolist() if bool(total.isfinite().all()) else str(total.item())


def _decode(value: Any, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Read a sum and check its dtype and shape."""
    value = float(value) if isinstance(value, str) else value
    total = torch.tensor(value, device="cpu", dtype=None if dtype == torch.int64 else dtype)
    if total.numel() == 0 == math.prod(shape):
        return total.to(dtype).reshape(shape)
    if total.dtype != dtype or tuple(total.shape) != shape:
        raise ValueError(f"a sum must be {dtype} of shape {shape}, got {total.dtype} of shape {tuple(total.shape)}")
    return total
