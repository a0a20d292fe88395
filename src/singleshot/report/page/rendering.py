"""The page itself: a template of the package with styles, scripts and data put inside, so that one file is all."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from singleshot.common.files import write_text

ASSETS = "assets"
TEMPLATE = "page.html.j2"
SURROGATES = range(0xD800, 0xE000)
ESCAPED = {code: f"\\u{code:04x}" for code in (*map(ord, "<>&\u2028\u2029"), *SURROGATES)}
"""What could end a script element, or a line of one; and halves of a character, which UTF-8 cannot hold."""


def script_json(data: Any) -> str:
    r"""JSON that may stand inside a script element: no sign of it can end the element or begin another.

    Everything else is as it is: escapes would make names in most of the world's scripts three times as long.

    >>> script_json({"name": "</script> & кот \u2028"})
    '{"name":"\\u003c/script\\u003e \\u0026 кот \\u2028"}'
    """
    return json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":")).translate(ESCAPED)


def csp_hash(text: str) -> str:
    """What a content security policy calls the one inline style or script that it lets in.

    >>> csp_hash("")
    'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='
    """
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def render(data: dict[str, Any]) -> str:
    """The page of this data as HTML."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    folder = files(__package__) / ASSETS
    # styles may be overruled by the last of them; scripts define what they offer, and the last sets it going
    there = sorted((one.name for one in folder.iterdir()), key=lambda name: (name in {"screens.css", "page.js"}, name))

    def joined(ending: str) -> str:
        return "\n".join((folder / name).read_text(encoding="utf-8") for name in there if name.endswith(ending))

    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters["hash"] = csp_hash
    template = environment.from_string((folder / TEMPLATE).read_text(encoding="utf-8"))
    return template.render(
        title=data["title"],
        models=[{"name": model["name"], "verdict": model["verdict"]} for model in data["models"]],
        data=Markup(script_json(data)),  # escaped for where it stands; the other two are the package's own
        css=Markup(joined(".css")),
        script=Markup(joined(".js")),
    )


def write_html(data: dict[str, Any], path: Path) -> None:
    """Write the page; it appears whole or not at all."""
    write_text(path, render(data))
