"""The HTML of the page: a template with the styles, scripts and data inlined."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

from singleshot.common.files import write_text
from singleshot.reporting.page.content import page_data
from singleshot.reporting.page.model_report import ModelReport

TEMPLATE = "page.html.j2"
SURROGATES = range(0xD800, 0xE000)
ESCAPED = {code: f"\\u{code:04x}" for code in (*map(ord, "<>&\u2028\u2029"), *SURROGATES)}
"""Characters that could end a script element or a line of one, and surrogates, which UTF-8 cannot encode."""


def script_json(data: Any) -> str:
    r"""Return JSON that is safe inside a script element. Other characters are not escaped, to keep the page small.

    >>> script_json({"name": "</script> & кот \u2028"})
    '{"name":"\\u003c/script\\u003e \\u0026 кот \\u2028"}'
    """
    return json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":")).translate(ESCAPED)


def render(data: dict[str, Any]) -> str:
    """Render the result of `page_data` as HTML."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    folder = files(__package__) / "assets"
    # screens.css overrides other styles, and page.js calls the functions of the other scripts: both come last.
    names = sorted((one.name for one in folder.iterdir()), key=lambda name: (name in {"screens.css", "page.js"}, name))

    def joined(suffix: str) -> Markup:
        return Markup("\n".join((folder / name).read_text(encoding="utf-8") for name in names if name.endswith(suffix)))

    def csp_hash(text: str) -> str:
        return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"

    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters["csp_hash"] = csp_hash
    template = environment.from_string((folder / TEMPLATE).read_text(encoding="utf-8"))
    return template.render(
        title=data["title"],
        models=[
            {"name": model["name"], "verdict": model["verdict"], "trust": model["next_step"]["trust"]}
            for model in data["models"]
        ],
        data=Markup(script_json(data)),  # escaped by script_json; the styles and scripts are part of the package
        css=joined(".css"),
        script=joined(".js"),
    )


def write_page(reports: Iterable[ModelReport], path: Path, **options: Any) -> dict[str, Any]:
    """Write the page about these models to an .html file and return its data; see `page_data` for the options."""
    data = page_data(reports, **options)
    write_text(path, render(data))
    return data
