"""Properties of torch's functions and tensors that sharing relies on: what is read, written or exposed by a call."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from singleshot.sampling.state import is_lazy

METADATA = frozenset(
    [
        Tensor.size, Tensor.dim, Tensor.ndimension, Tensor.numel, Tensor.nelement, Tensor.__len__, Tensor.stride,
        Tensor.is_contiguous, Tensor.is_floating_point, Tensor.is_complex, Tensor.get_device, Tensor.element_size,
        Tensor.is_inference, Tensor.requires_grad_, torch.is_floating_point, torch.is_complex,
        torch.numel, *(getattr(Tensor, name).__get__ for name in (
            "shape", "dtype", "device", "ndim", "requires_grad", "is_leaf", "grad_fn", "layout", "is_cuda", "is_sparse",
            "is_quantized", "is_meta", "is_mps", "is_nested", "grad", "_version",
        )),
    ]
)  # fmt: skip
"""Calls that do not read the values of a tensor. They are passed through."""
_SET_DATA = Tensor.data.__set__  # type: ignore[attr-defined]
EXPOSING = frozenset(
    [Tensor.numpy, Tensor.__array__, Tensor.__dlpack__, Tensor.register_hook, Tensor.retain_grad, _SET_DATA]
)
"""Calls after which a tensor may change unnoticed, or belongs to one pass. It is not shared."""
_IN_PLACE_OPERATORS = frozenset(
    ["__setitem__", *(f"__i{name}__" for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul",
    "and", "or", "xor", "lshift", "rshift"))]
)  # fmt: skip
VALUES = (int, float, bool, str, bytes, complex, torch.dtype, torch.device, torch.layout, torch.memory_format)


def check_rate(func: Any, input: Tensor, p: float = 0.5, training: bool = True, *_: Any, **__: Any) -> None:
    """Refuse a functional dropout that drops everything."""
    if p == 1 and training:
        raise ValueError(f"{func.__name__} has rate 1, which drops everything; use a lower rate")


def announced_writes(name: Any, kwargs: dict[str, Any], tensors: list[Tensor]) -> list[Tensor]:
    """The tensors that a call writes to, judging by its name, ``inplace=True`` or ``out=``."""
    spelled = getattr(name, "__name__", "")
    if spelled.startswith("__"):
        return tensors[:1] if spelled in _IN_PLACE_OPERATORS else []
    if spelled.endswith("_") or kwargs.get("inplace") is True or getattr(name, "inplace", False) is True:
        return tensors if spelled.startswith("_foreach") else tensors[:1]
    out = kwargs.get("out")
    return [out] if isinstance(out, Tensor) else list(out or ())


def version_of(tensor: Tensor) -> int:
    """Return a number that changes with every write in place; 0 for tensors without one."""
    return 0 if is_lazy(tensor) or tensor.is_inference() else tensor._version


def address_of(tensor: Tensor) -> int:
    """Return what identifies the memory of a tensor, which views share."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError, ValueError):  # a sparse or lazy tensor has no storage
        return id(tensor)
