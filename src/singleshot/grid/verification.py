"""Verification of stored results: each run is repeated, and its numbers are compared to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from singleshot.grid.job import Result

MAY_DIFFER = ("seconds", "cpu_seconds", "device", "environment", "measured_in")
"""Parts of a result that describe when, where and how fast it was measured."""


def differences(stored: Result, repeated: Result) -> list[str]:
    """Return the numbers of a result that differ when its run is repeated, as paths with both values."""
    return list(_differences(_numbers(stored), _numbers(repeated), ""))


def _numbers(result: Result) -> dict[str, Any]:
    return {name: value for name, value in result.to_dict().items() if name not in MAY_DIFFER}


def _differences(stored: Any, repeated: Any, path: str) -> Iterator[str]:
    if isinstance(stored, dict) and isinstance(repeated, dict) and stored.keys() == repeated.keys():
        for name, value in stored.items():
            yield from _differences(value, repeated[name], f"{path}.{name}".lstrip("."))
    elif isinstance(stored, list) and isinstance(repeated, list) and len(stored) == len(repeated):
        for number, (one, other) in enumerate(zip(stored, repeated, strict=True)):
            yield from _differences(one, other, f"{path}[{number}]")
    elif repr(stored) != repr(repeated):  # equal NaNs, and −0.0 is not 0.0
        yield f"{path}: {stored!r} is stored, {repeated!r} was measured"
