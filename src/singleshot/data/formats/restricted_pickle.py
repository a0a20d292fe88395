"""Reading pickles of arrays, lists, dicts and strings, and refusing all that could do anything else.

A pickle is a program: it names functions and calls them. Here no name leads to a real function. Those that a pickled
array needs lead to stand-ins of this file, which check what they are given and keep it; only afterwards are arrays made
of it. All other names are refused, and so are the instructions that plain data never needs.
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

MOST_BYTES = 2**30  # CIFAR-100's larger file has 155 million
MOST_TUPLES = 1000  # an array has four; hashing a tuple nested a million deep would crash the interpreter
DEEPEST = 50

# What plain data is written with from protocol 2 on. Absent: classes, instances, extensions, persistent objects, sets.
_INSTRUCTIONS = (
    frozenset({"PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK", "NONE", "NEWTRUE", "NEWFALSE"})
    | {"BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"}
    | {"BINSTRING", "SHORT_BINSTRING", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
    | {"BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"}
    | {"EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS"}
    | {"EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"}
    | {"BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "MEMOIZE"}
    | {"GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD"}
)


def read_plain_pickle(path: Path) -> Any:
    """What a pickle holds, if that is numbers, strings, bytes, lists, tuples, dicts and arrays of plain numbers.

    Strings that Python 2 wrote come back as bytes.
    """
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise ValueError(f"{path} has {size:,} bytes; no pickle of more than {MOST_BYTES:,} is read")
    content = path.read_bytes()
    try:
        _check_instructions(content)
        return _finished(_Unpickler(io.BytesIO(content), encoding="bytes").load(), DEEPEST, {})
    except Exception as error:  # a damaged pickle can fail in any way
        raise ValueError(f"{path} is not a pickle of plain arrays, lists and strings: {error}") from None


def _check_instructions(content: bytes) -> None:
    tuples = 0
    for instruction, argument, _ in pickletools.genops(content):
        if instruction.name not in _INSTRUCTIONS:
            raise pickle.UnpicklingError(f"it uses {instruction.name}, which is refused")
        if instruction.name == "LONG_BINPUT" and int(argument or 0) > len(content):
            raise pickle.UnpicklingError(f"it asks for memory of {argument} entries")
        tuples += instruction.name.startswith("TUPLE")
    if tuples > MOST_TUPLES:
        raise pickle.UnpicklingError(f"it holds {tuples} tuples; at most {MOST_TUPLES} are taken")


class _Dtype:
    """A pickled dtype: first its kind and width, then, as its state, its byte order."""

    __slots__ = ("dtype",)

    def __init__(self, code: Any, *_: Any) -> None:
        code = _text(code)
        if not re.fullmatch(r"[biuf][1248]", code):
            raise pickle.UnpicklingError(f"arrays of dtype {code!r} are refused; only plain numbers are taken")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = _text(state[1])
        if order not in ("<", ">", "|", "="):
            raise pickle.UnpicklingError(f"there is no byte order {order!r}")
        self.dtype = self.dtype.newbyteorder(order)


class _Array:
    """A pickled array: first nothing, then, as its state, shape, dtype and bytes."""

    __slots__ = ("array",)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, content = state
        self.fill(content, dtype, shape, "F" if fortran else "C")

    def fill(self, content: Any, dtype: Any, shape: Any, order: Any) -> _Array:
        if not isinstance(dtype, _Dtype) or not isinstance(content, bytes | bytearray):
            raise pickle.UnpicklingError("an array is not made of a dtype and bytes")
        if not isinstance(shape, tuple) or not all(isinstance(length, int) and length >= 0 for length in shape):
            raise pickle.UnpicklingError(f"an array cannot have shape {shape!r}")
        if math.prod(shape) * dtype.dtype.itemsize != len(content):
            raise pickle.UnpicklingError(f"an array of shape {shape} and {dtype.dtype} has {len(content)} bytes")
        array: np.ndarray[Any, Any] = np.frombuffer(content, dtype.dtype)
        self.array = array.reshape(shape, order="F" if _text(order) == "F" else "C")
        return self


class _StandIn:
    """Takes the place of a function; unlike a function, nothing can be set on it from a pickle."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("it changes a function")


def _encode(text: Any, encoding: Any) -> bytes:
    """How Python 3 writes bytes for Python 2."""
    if not isinstance(text, str) or _text(encoding) not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"an encoding other than latin1 is refused: {encoding!r}")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    """How Python 3 writes an empty bytes object for Python 2; with an argument it could ask for any amount."""
    return b""


_NAMES: dict[tuple[str, str], _StandIn] = {
    ("numpy", "ndarray"): _StandIn(_Array),  # named, never called, by what follows
    ("numpy", "dtype"): _StandIn(_Dtype),
    ("_codecs", "encode"): _StandIn(_encode),
    ("__builtin__", "bytes"): _StandIn(_no_bytes),
}
for _core in ("numpy.core", "numpy._core"):  # before and since numpy 2
    _NAMES[f"{_core}.multiarray", "_reconstruct"] = _StandIn(lambda _subtype, _shape, _code: _Array())
    _NAMES[f"{_core}.numeric", "_frombuffer"] = _StandIn(lambda *arguments: _Array().fill(*arguments))


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _NAMES[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is refused") from None


def _finished(value: Any, depth: int, done: dict[int, Any]) -> Any:
    """The value with arrays in place of their stand-ins; each object once, however often it is referred to."""
    if depth == 0:
        raise pickle.UnpicklingError(f"it is nested more than {DEEPEST} deep")
    if id(value) in done:
        return done[id(value)]
    finished: Any
    if isinstance(value, dict):
        finished = {_finished(key, depth - 1, done): _finished(item, depth - 1, done) for key, item in value.items()}
    elif isinstance(value, list | tuple):
        finished = type(value)(_finished(item, depth - 1, done) for item in value)
    elif isinstance(value, _Array):
        finished = value.array
    elif value is None or isinstance(value, bool | int | float | str | bytes | bytearray):
        return value
    else:
        raise pickle.UnpicklingError("it holds something other than plain data")
    done[id(value)] = finished
    return finished


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("latin1")
    if isinstance(value, str):
        return value
    raise pickle.UnpicklingError(f"a string was wanted, not {type(value).__name__}")
