"""Untrusted names and values, escaped and truncated for display."""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

from singleshot.common.text import printable

MAX_LENGTH = 120


def shown(text: object, max_length: int = MAX_LENGTH, *, keep_end: bool = False) -> str:
    r"""Return text on one line with control characters escaped, truncated at its end or, for paths, at its start.

    >>> shown("cat\u202etac\n"), shown("x" * 200, max_length=5), shown("runs/long/a", max_length=4, keep_end=True)
    ('cat\\u202etac\\n', 'xxxx…', '…g/a')
    """
    plain = printable(str(text))
    if len(plain) <= max_length:
        return plain
    return f"…{plain[len(plain) - max_length + 1 :]}" if keep_end else f"{plain[: max_length - 1]}…"


def shown_values(value: Any) -> Any:
    """Make every text in nested dicts and lists safe to display; other objects become text."""
    if isinstance(value, dict):
        return {shown(name): shown_values(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [shown_values(inner) for inner in value]
    return value if value is None or isinstance(value, bool | int | float) else shown(value, max_length=1000)


def numbered(name: str, taken: Container[str]) -> str:
    """Append a number to a name that is taken.

    >>> numbered("a", ["a", "a (2)"])
    'a (3)'
    """
    candidates = (name if number == 1 else f"{name} ({number})" for number in itertools.count(1))
    return next(candidate for candidate in candidates if candidate not in taken)


def short_names(paths: Sequence[Path]) -> list[str]:
    """Name each path by its last part, or by the whole path if several have the same last part.

    >>> short_names([Path("runs/a"), Path("b.npz"), Path("old/b.npz"), Path()])
    ['a', 'b.npz', 'old/b.npz', '.']
    """
    last_parts = [path.name for path in paths]
    return [path.name if path.name and last_parts.count(path.name) == 1 else str(path) for path in paths]


def class_label(index: int, names: tuple[str, ...] | None) -> str:
    """Return the name of a class, or its index; a blank, escaped or truncated name is followed by the index.

    >>> class_label(1, ("cat", "d" * 200))[-7:]
    'dd… (1)'
    """
    if names is None:
        return str(index)
    name = names[index]
    label = shown(name if name.strip() else repr(name))
    return name if label == name else f"{label} ({index})"
