"""Docstrings as Markdown for the API pages: examples become code blocks, and names of the library become links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

import singleshot

MODULES = {path.stem for path in Path(singleshot.__file__).parent.iterdir()}
PUBLIC: set[str] = set(vars(singleshot)["__all__"]) - MODULES
ROLE = re.compile(r"(?::\w+:)?(?<!`)`~?((?:singleshot\.)?(\w+))`(?!`)")
EXAMPLE = re.compile(r"^([ ]*)>>> .*(?:\n\1\S.*)*", re.MULTILINE)


def as_markdown(docstring: str) -> str:
    r"""Return the docstring with fenced examples and with links in place of Sphinx's roles.

    >>> print(as_markdown("See :func:`vwci_loss`.\n\n>>> 1 + 1\n2"))
    See [`vwci_loss`][singleshot.vwci_loss].
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    linked = ROLE.sub(lambda name: _link(name[1], name[2]), docstring)
    return EXAMPLE.sub(lambda code: f"{code[1]}```pycon\n{code[0]}\n{code[1]}```", linked)


def _link(shown: str, name: str) -> str:
    return f"[`{name}`][singleshot.{name}]" if name in PUBLIC else f"`{shown}`"


class Docstrings(griffe.Extension):  # type: ignore[misc]
    """Converts every docstring that griffe reads."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Convert the docstring of an object."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
