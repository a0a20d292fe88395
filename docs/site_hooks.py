"""What MkDocs does with the pages beyond Markdown: notebooks, formulas, links, and pages from outside this folder.

`make docs-site` builds the site with these hooks. A notebook is shown with its stored outputs. A formula becomes
MathML, which browsers draw without a script. ``ss.NAME`` in a text links to the reference. A link to a file of the
repository that is not on the site becomes plain text.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
MOVED = {"changelog.md": ROOT / "CHANGELOG.md", "contributing.md": ROOT / "CONTRIBUTING.md"}
NOTEBOOKS = {f"notebooks/{path.stem}.md": path for path in sorted((DOCS / "notebooks").glob("*.ipynb"))}
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\\\[|\\\])*)\]\(([^)#\s]+)(#[^)]*)?\)")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
NO_LINKS = re.compile(r"(<(a|pre|h[1-6])\b.*?</\2>)", re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not Markdown files of this folder."""
    for uri, path in MOVED.items():
        files.append(File.generated(config, uri, content=path.read_text(encoding="utf-8")))
    for uri, path in NOTEBOOKS.items():
        files.remove(files.src_uris[f"notebooks/{path.name}"])
        files.append(File.generated(config, uri, content=notebook_as_markdown(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Let every link lead to a page of the site; a page of its own needs no list of the pages next to it."""
    if page.parent is None:
        page.meta["hide"] = ["navigation"]
    source = (MOVED | NOTEBOOKS).get(page.file.src_uri, DOCS / page.file.src_uri)
    return LINK.sub(lambda found: _link(found, source, Path(page.file.src_uri).parent), markdown)


def _link(found: re.Match[str], source: Path, folder: Path) -> str:
    text, link, anchor = found[1], found[2], found[3] or ""
    if "://" in link:
        return found[0]
    target = (source.parent / link).resolve()
    for uri, path in (MOVED | NOTEBOOKS | {"index.md": ROOT / "README.md"}).items():
        if target == path:
            target = DOCS / uri
    if not target.is_relative_to(DOCS):
        return text
    return f"[{text}]({os.path.relpath(target, DOCS / folder)}{anchor})"


def on_page_content(html: str, **_: Any) -> str:
    """Render the formulas, and link the names of the library."""
    parts = NO_LINKS.split(FORMULA.sub(_mathml, html))
    parts[::3] = [re.sub(r"<code>ss\.(\w+)((?:\(.*?\))?)</code>", _reference, part) for part in parts[::3]]
    del parts[2::3]  # the name of the element in NO_LINKS
    return "".join(parts)


def on_post_build(config: MkDocsConfig) -> None:
    """Delete the languages of the search that the site does not use; they have a licence of their own (MPL 1.1)."""
    shutil.rmtree(Path(config.site_dir) / "assets" / "javascripts" / "lunr")


def _mathml(found: re.Match[str]) -> str:
    return str(convert(html.unescape(found[2]), display="inline" if found[1] == "span" else "block"))


def _reference(found: re.Match[str]) -> str:
    return f'<autoref identifier="singleshot.{found[1]}">{found[0]}</autoref>'


def notebook_as_markdown(path: Path) -> str:
    """Return the cells of a notebook with their stored outputs."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        shown = "".join(map(_output, cell.get("outputs", ())))
        if shown:
            parts.append(f'<div class="output">{shown}</div>')
    return "\n\n".join(parts)


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {"text/plain": output.get("text", "")})
    if "image/png" in data:
        picture = base64.b64encode(base64.b64decode("".join(data["image/png"]))).decode()
        return f'<img alt="{html.escape("".join(data["text/plain"]))}" src="data:image/png;base64,{picture}">'
    if "text/html" in data:
        return "".join(data["text/html"]).replace("\n", " ")
    text = html.escape("".join(data["text/plain"])).rstrip()
    return f"<pre><code>{text.replace(chr(10), '&#10;')}</code></pre>"
