"""Messages escaped for the terminal, and values converted for JSON. Imports no torch, for the command line."""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any


def printable(text: str, *, keep: str = "") -> str:
    r"""Return text with control characters escaped, except those to ``keep``, because a terminal would execute them.

    >>> printable("a\x1b[2J.npz"), printable("two lines,\nand a bell\a", keep="\n")
    ('a\\x1b[2J.npz', 'two lines,\nand a bell\\x07')
    """
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape", "surrogatepass").decode()
        for char in text
    )


def print_status(text: str) -> None:
    """Print a message on standard error, with control characters escaped."""
    print(printable(text, keep="\n"), file=sys.stderr, flush=True)


def shown(text: object, max_length: int = 120, *, keep_end: bool = False) -> str:
    r"""Return text on one line with control characters escaped, truncated at its end or, for paths, at its start.

    >>> shown("cat\u202etac\n"), shown("x" * 200, max_length=5), shown("runs/long/a", max_length=4, keep_end=True)
    ('cat\\u202etac\\n', 'xxxx…', '…g/a')
    """
    plain = printable(str(text))
    if len(plain) <= max_length:
        return plain
    return f"…{plain[len(plain) - max_length + 1 :]}" if keep_end else f"{plain[: max_length - 1]}…"


def quoted(value: object) -> str:
    """Return the repr of a value for a message, truncated.

    >>> quoted("cat"), quoted(1.5), len(quoted("x" * 5000))
    ("'cat'", '1.5', 120)
    """
    return shown(repr(value))


def listed(names: Sequence[str], limit: int = 10) -> str:
    """Join the first few names, long ones truncated, and count the rest.

    >>> listed(["logits", "y"]), listed([]), listed("abc", limit=2)
    ('logits, y', 'nothing', 'a, b and 1 more')
    """
    if not names:
        return "nothing"
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return ", ".join(shown(name) if name.strip() else repr(name) for name in names[:limit]) + more


def unknown_name(what: str, name: str, known: Sequence[str], also: str = "") -> ValueError:
    """Return an error that suggests the nearest known name and lists all of them."""
    nearest = difflib.get_close_matches(name.lower().replace("-", "_"), known, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]!r}? " if nearest else ""
    return ValueError(f"unknown {what} {quoted(name)}; {hint}choose one of {', '.join(known)}{also}")


def jsonable(value: Any) -> Any:
    """Convert a value for strict JSON: NaN and infinities become None, also inside dicts, lists and dataclasses.

    Arrays and tensors become lists, numpy scalars become Python numbers, tuples become lists.

    >>> jsonable({"ece": 0.5, "nll": float("inf"), "bins": (1, float("nan"))})
    {'ece': 0.5, 'nll': None, 'bins': [1, None]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = vars(value)
    elif hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {name: jsonable(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
