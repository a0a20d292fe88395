"""Text that may hold names from outside, made safe to print. Light, so that the command line needs no torch for it."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Text on one line, its control characters spelled out: a terminal would obey them.

    >>> printable("a\x1b[2J.npz")
    'a\\x1b[2J.npz'
    """
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape", "surrogatepass").decode() for sign in text
    )


def printable_lines(text: str) -> str:
    r"""The same for a message of several lines, which stay lines.

    >>> print(printable_lines("two lines,\nand a bell\a"))
    two lines,
    and a bell\x07
    """
    return "\n".join(printable(line) for line in text.split("\n"))
