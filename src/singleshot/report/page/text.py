"""Names and values from outside, as a page shows them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Container
from typing import Any

from singleshot.common.text import printable

LONGEST = 120


def shown(text: object, longest: int = LONGEST) -> str:
    r"""Text on one line, whatever it holds: control characters and marks that turn text around are spelled out.

    >>> shown("cat\u202etac\n"), shown("x" * 200, longest=5)
    ('cat\\u202etac\\n', 'xxxx…')
    """
    plain = printable(str(text))
    return plain if len(plain) <= longest else f"{plain[: longest - 1]}…"


def shown_end(text: object, longest: int = LONGEST) -> str:
    """The same, cut at its beginning: of a long path, the end tells it from others.

    >>> shown_end("runs/long/a", longest=4)
    '…g/a'
    """
    plain = printable(str(text))
    return plain if len(plain) <= longest else f"…{plain[len(plain) - longest + 1 :]}"


def numbered(name: str, taken: Container[str]) -> str:
    """The name, or where it is taken, the name with a number.

    >>> numbered("a", ["a", "a (2)"])
    'a (3)'
    """
    free = (name if number == 1 else f"{name} ({number})" for number in itertools.count(1))
    return next(one for one in free if one not in taken)


def class_label(index: int, names: tuple[str, ...] | None) -> str:
    """The name of a class, or its number where it has none; a name that is cut has its number as well.

    >>> class_label(1, ("cat", "d" * 200))[-7:]
    'dd… (1)'
    """
    if names is None:
        return str(index)
    if not names[index].strip():
        return f"{shown(repr(names[index]))} ({index})"
    whole, cut = shown(names[index], longest=10**9), shown(names[index])
    return cut if cut == whole else f"{shown(names[index], LONGEST - len(str(index)) - 3)} ({index})"


def plain_value(value: Any) -> Any:
    """A value as JSON can hold it: every number finite or None, every text shown, whatever else as text."""
    if isinstance(value, dict):
        return {shown(name): plain_value(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(inner) for inner in value]
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return shown(value, longest=1000)
