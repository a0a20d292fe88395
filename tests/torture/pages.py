"""Hostile names of models, runs and classes on the report page: they are text, and add no element."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import numpy as np

from singleshot.reporting.page import file_report, page_data, render, write_page
from torture.tally import Tally

PIECES = ["<script>alert(1)</script>", "</script>", "<!--", "-->", "]]>", "<img src=x onerror=alert(1)>", "{{7*7}}"]
PIECES += [
    "{% raw %}",
    "\u2028",
    "\u202e",
    "\x1b[2J",
    "\x00",
    "&lt;",
    "'\"`",
    "\udc80",
    "javascript:alert(1)",
    "\n",
    "a",
]


class Elements(HTMLParser):
    """The elements of a page, and the text in its data element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.data = ""
        self._is_data = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        self._is_data = ("type", "application/json") in attrs
        assert not any(name.startswith("on") for name, _ in attrs), f"an event handler: {attrs}"

    def handle_data(self, data: str) -> None:
        if self._is_data:
            self.data += data


def hostile_names(tally: Tally) -> None:
    """Write a page with random hostile names, and compare its elements with those of a page with plain names."""
    random = tally.random

    def name() -> str:
        return "".join(random.choice(PIECES) for _ in range(random.randint(1, 6)))

    generator = np.random.default_rng(random.randrange(2**32))
    logits, labels = generator.normal(size=(60, 4)) * 3, generator.integers(0, 4, 60)
    path = tally.folder / "p.npz"
    np.savez(path, logits=logits, labels=labels, class_names=np.array(list("abcd")))
    plain = Elements(render(page_data([file_report(path, name="x", replicates=0)], title="x", replicates=0)))
    for number in range(3):
        classes = [f"{name()}{number}".replace("\udc80", "").replace("\x00", "") for number in range(4)]
        np.savez(path, logits=logits, labels=labels, class_names=np.array(classes))
        model, title = name(), name()
        with tally.case(f"{model!r}, {title!r}, {classes!r}"):
            report = file_report(path, name=model, replicates=0)
            page = tally.folder / f"{number}.html"
            data = write_page([report], page, title=title, replicates=0)
            found = Elements(page.read_text(encoding="utf-8"))
            assert found.found == plain.found, "an element comes from a name"
            assert json.loads(found.data) == json.loads(json.dumps(data))
