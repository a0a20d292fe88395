"""Reading a pickled dict of arrays and plain values without running code from the file.

A pickle names functions and calls them. Here every allowed name maps to a stand-in defined in this module that checks
its arguments; no name maps to a real function or class. All other names, and all instructions that plain data does not
need, are refused.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

MAX_BYTES = 2**30  # the largest file of CIFAR-100 has 155 million
MAX_TUPLES = 1000  # an array needs four; hashing deeply nested tuples would crash the interpreter

# What protocols 2 and later use for plain data. Classes, instances, extensions, persistent objects and sets are absent.
_INSTRUCTIONS = frozenset({
    "PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK", "NONE", "NEWTRUE", "NEWFALSE",
    "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT",
    "BINSTRING", "SHORT_BINSTRING", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
    "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
    "EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS",
    "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
    "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "MEMOIZE",
    "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD",
})  # fmt: skip


def read_pickled_dict(path: Path) -> dict[str, Any]:
    """Read a pickled dict whose values are arrays of numbers, numbers, strings, bytes, lists, tuples or dicts.

    The caller must check the types it needs: nested values may contain inert stand-ins. Strings that Python 2 wrote are
    returned as bytes, except for the keys.
    """
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise ValueError(f"{path} has {size:,} bytes, more than the limit of {MAX_BYTES:,} for a pickle")
    content = path.read_bytes()
    try:
        _check_instructions(content)
        value = _Unpickler(io.BytesIO(content), encoding="bytes").load()
        if not isinstance(value, dict):
            raise pickle.UnpicklingError(f"it contains a {type(value).__name__}, expected a dict")  # noqa: TRY301
        return {_text(key): item.array if isinstance(item, _Array) else item for key, item in value.items()}
    except Exception as error:  # a damaged pickle can raise anything
        raise ValueError(f"{path} is not a pickled dict of arrays, lists and strings: {error}") from None


def _check_instructions(content: bytes) -> None:
    tuples = 0
    for instruction, argument, _ in pickletools.genops(content):
        if instruction.name not in _INSTRUCTIONS:
            raise pickle.UnpicklingError(f"it uses {instruction.name}, which is not allowed")
        if instruction.name == "LONG_BINPUT" and int(argument or 0) > len(content):
            raise pickle.UnpicklingError(f"it requests memory for {argument} entries")
        tuples += instruction.name.startswith("TUPLE")
    if tuples > MAX_TUPLES:
        raise pickle.UnpicklingError(f"it contains {tuples} tuples, more than {MAX_TUPLES}")


class _Dtype:
    """Stand-in for a dtype, which is pickled as its kind and width, followed by its byte order as state."""

    __slots__ = ("dtype",)

    def __init__(self, code: Any, *_: Any) -> None:
        if not re.fullmatch(r"[biuf][1248]", _text(code)):
            raise pickle.UnpicklingError(f"arrays of dtype {_text(code)!r} are not allowed, only numbers are")
        self.dtype = np.dtype(_text(code))

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = _text(state[1])
        if order not in ("<", ">", "|", "="):
            raise pickle.UnpicklingError(f"invalid byte order {order!r}")
        self.dtype = np.dtype(order + self.dtype.str[1:])


class _Array:
    """Stand-in for an array, which is pickled empty, followed by its shape, dtype, order and bytes as state."""

    __slots__ = ("array",)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran_order, content = state
        if not isinstance(dtype, _Dtype) or not isinstance(content, bytes | bytearray):
            raise pickle.UnpicklingError("an array must have a dtype and bytes")
        if not isinstance(shape, tuple) or not all(isinstance(length, int) and length >= 0 for length in shape):
            raise pickle.UnpicklingError(f"an array cannot have shape {shape!r}")
        if math.prod(shape) * dtype.dtype.itemsize != len(content):
            raise pickle.UnpicklingError(f"an array of shape {shape} and {dtype.dtype} has {len(content)} bytes")
        array: np.ndarray[Any, Any] = np.frombuffer(content, dtype.dtype)
        self.array = array.reshape(shape, order="F" if fortran_order else "C")


class _Function:
    """Stand-in for a function. Unlike a function, it has no attributes that a pickle could set."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("it modifies a function")


def _encode(text: Any, encoding: Any) -> bytes:
    """Stand-in for ``_codecs.encode``, which Python 3 uses to write bytes with protocol 2."""
    if not isinstance(text, str) or _text(encoding) not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"encoding {encoding!r} is not allowed, only latin1 is")
    return text.encode("latin1")


def _frombuffer(content: Any, dtype: Any, shape: Any, order: Any) -> _Array:
    """Stand-in for the function that protocol 5 uses to make an array."""
    array = _Array()
    array.__setstate__((1, shape, dtype, _text(order) == "F", content))
    return array


_NAMES = {
    ("numpy", "ndarray"): _Function(_Array),  # an argument of _reconstruct, never called
    ("numpy", "dtype"): _Function(_Dtype),
    ("_codecs", "encode"): _Function(_encode),
    ("__builtin__", "bytes"): _Function(lambda: b""),  # with an argument, bytes could allocate any amount of memory
}
for _core in ("numpy.core", "numpy._core"):  # before and since numpy 2
    _NAMES[f"{_core}.multiarray", "_reconstruct"] = _Function(lambda _subtype, _shape, _code: _Array())
    _NAMES[f"{_core}.numeric", "_frombuffer"] = _Function(_frombuffer)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _NAMES[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}, which is not allowed") from None


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("latin1")
    if isinstance(value, str):
        return value
    raise pickle.UnpicklingError(f"expected a string, found {type(value).__name__}")
