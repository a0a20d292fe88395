"""A fitted calibration as a plain JSON file: written whole, read with every name, shape and number checked.

    {"format": "singleshot-scaling", "version": 1, "method": "temperature", "parameters": {"temperature": 1.5}}

Numbers are written with all the digits they need to come back bit for bit. Reading runs no code from the file.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from singleshot.common.files import write_text

FORMAT, VERSION = "singleshot-scaling", 1
MAX_BYTES = 2**31  # a full matrix for 10,000 classes; a larger file is not one of ours


def write_parameters(path: Path, method: str, parameters: Mapping[str, object]) -> None:
    """Write the parameters of a method atomically, exact to the last bit."""
    content = {"format": FORMAT, "version": VERSION, "method": method, "parameters": dict(parameters)}
    write_text(path, json.dumps(content, allow_nan=False) + "\n")


def read_parameters(path: Path) -> tuple[str, Mapping[str, Any]]:
    """The name of the method and its parameters, not yet checked; a file of another kind is refused."""
    content = _read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f'{path} is not a saved calibration: it must be a JSON object with "format": "{FORMAT}"')
    if content.get("version") != VERSION or isinstance(content["version"], bool):
        raise ValueError(
            f"{path} has version {reprlib.repr(content.get('version'))} of the format, and this singleshot reads "
            f"version {VERSION}; update singleshot, or fit and save again"
        )
    method, parameters = content.get("method"), content.get("parameters")
    if not isinstance(method, str) or not isinstance(parameters, dict):
        raise ValueError(f'{path} is damaged: it must have a "method" (text) and "parameters" (an object)')
    return method, parameters


def _read_json(path: Path) -> object:
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file; `save` of a fitted calibration makes one")
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path} is larger than {MAX_BYTES} bytes: that is not a saved calibration")
    content = path.read_bytes()
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:  # damaged text, numbers of a million digits, a million brackets
        raise ValueError(f"{path} cannot be read as JSON: {str(error)[:200]}") from None


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number that a calibration can have")


def check_names(parameters: Mapping[str, Any], wanted: Sequence[str]) -> None:
    """Refuse parameters with a name too few or too many."""
    if set(parameters) != set(wanted):
        found = ", ".join(reprlib.repr(name) for name in list(parameters)[:10]) or "none"
        raise ValueError(f"the parameters must be {', '.join(wanted)}, got {found}")


def number(parameters: Mapping[str, Any], name: str) -> float:
    """One finite number."""
    return _finite(parameters[name], name)


def vector(parameters: Mapping[str, Any], name: str, length: int | None = None) -> Tensor:
    """A list of finite numbers as a float64 tensor, of this length if one is given."""
    return torch.tensor(_numbers(parameters[name], name, length), dtype=torch.float64)


def matrix(parameters: Mapping[str, Any], name: str, columns: int | None = None) -> Tensor:
    """A list of equally long lists of finite numbers as a float64 tensor."""
    rows = rows_of_numbers(parameters, name)
    columns = len(rows[0]) if columns is None else columns
    for index, row in enumerate(rows):
        if len(row) != columns:
            raise ValueError(f"{name}[{index}] must have {columns} numbers, got {len(row)}")
    return torch.tensor(rows, dtype=torch.float64)


def rows_of_numbers(parameters: Mapping[str, Any], name: str) -> list[list[float]]:
    """A list of lists of finite numbers, which may differ in length or be empty."""
    rows = parameters[name]
    if not isinstance(rows, list) or not rows:
        raise ValueError(f"{name} must be a list of lists of numbers, got {reprlib.repr(rows)}")
    return [_numbers(row, f"{name}[{index}]", None, least=0) for index, row in enumerate(rows)]


def _numbers(values: object, name: str, length: int | None, least: int = 1) -> list[float]:
    if not isinstance(values, list) or len(values) < least:
        raise ValueError(f"{name} must be a list of numbers, got {reprlib.repr(values)}")
    if length is not None and len(values) != length:
        raise ValueError(f"{name} must have {length} numbers, got {len(values)}")
    return [_finite(value, f"{name}[{index}]") for index, value in enumerate(values)]


def _finite(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number, got {reprlib.repr(value)}")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise ValueError(f"{name} must be a finite number, got {reprlib.repr(value)}")
    return found
