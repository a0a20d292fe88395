"""The inputs of a model: one or several tensors, by position or by name, with the batch as their first dimension."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")


@dataclass(frozen=True)
class Inputs:
    """Tensors with the names that they have in the file."""

    names: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    keywords: tuple[str, ...] | None = None  # names of the model's arguments, or None for inputs by position

    def __len__(self) -> int:
        return len(self.tensors[0])

    @property
    def args(self) -> tuple[Tensor, ...]:
        """The inputs by position."""
        return self.tensors if self.keywords is None else ()

    @property
    def kwargs(self) -> dict[str, Tensor]:
        """The inputs by name."""
        return {} if self.keywords is None else dict(zip(self.keywords, self.tensors, strict=True))

    def call(self, function: Callable[..., Result]) -> Result:
        """Call a function with these inputs."""
        return function(*self.args, **self.kwargs)

    def first(self, rows: int) -> Inputs:
        """Return the first rows of every input."""
        return replace(self, tensors=tuple(tensor[:rows] for tensor in self.tensors))

    def like(self, rows: int, *, pixels: bool) -> Inputs:
        """Return so many inputs like these: random pixels, or their rows, with noise if they are floats.

        Integers such as token ids have a range that is not known here, so they are only repeated.
        """
        generator = torch.Generator().manual_seed(0)

        def random_like(example: Tensor) -> Tensor:
            shape = (rows, *example.shape[1:])
            if pixels or example.dtype == torch.uint8:
                return torch.randint(0, 256, shape, generator=generator).to(example.dtype)
            repeated = example[torch.arange(rows) % len(example)]
            if not repeated.is_floating_point():
                return repeated
            return repeated + torch.randn(shape, generator=generator).to(repeated)

        return replace(self, tensors=tuple(map(random_like, self.tensors)))

    def __str__(self) -> str:
        return " and ".join(f"shape {tuple(tensor.shape)} and {tensor.dtype}" for tensor in self.tensors)


def read_inputs(example: Any, names: Sequence[str] | None) -> Inputs:
    """Check an example, given as a tensor, a tuple or a dict of tensors, and name its tensors."""
    keywords: tuple[str, ...] | None = None
    if isinstance(example, Tensor):
        if example.ndim < 2 or 0 in example.shape:
            raise ValueError(
                f"example must have shape (N, ...), such as (1, 3, 32, 32), with at least one row, got "
                f"{tuple(example.shape)}"
            )
        tensors: tuple[Any, ...] = (example,)
        default: tuple[str, ...] = ("images" if example.ndim == 4 else "inputs",)
    elif isinstance(example, Mapping):
        tensors, keywords = tuple(example.values()), tuple(map(str, example))
        default = keywords
    elif isinstance(example, tuple | list):
        tensors, default = tuple(example), tuple(f"input_{number}" for number in range(len(example)))
    else:
        raise TypeError(f"example must be a tensor (N, ...), or a tuple or dict of them, got {type(example).__name__}")
    for name, tensor in zip(default, tensors, strict=True):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"example must hold tensors (N, ...), got a {type(tensor).__name__} for {name!r}")
    rows = {len(tensor) if tensor.ndim else 0 for tensor in tensors}
    if len(rows) != 1 or 0 in rows:
        raise ValueError(f"the tensors of an example must have equal numbers of rows, at least one, got {sorted(rows)}")
    names = default if names is None else tuple(names)
    if len(names) != len(tensors) or len({*names, "logits", "probs"}) != len(names) + 2:
        raise ValueError(f"input_names must be {len(tensors)} different names other than logits and probs, got {names}")
    return Inputs(names, tuple(tensor.detach().cpu() for tensor in tensors), keywords)
