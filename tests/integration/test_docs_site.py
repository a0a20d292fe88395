"""The documentation site builds strictly, has no dead link, and works from disk in a browser; its notebooks run.

Needs the extra docs. SINGLESHOT_SITE names a folder with a site that is built already, as in .ci/run.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from reporting.browser.chromium import Browser

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
MACHINE_PATH = re.compile(r"(?<![\w.:/])/(?:home|root|tmp|usr|var|work|Users)/")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if "SINGLESHOT_SITE" in os.environ:
        return Path(os.environ["SINGLESHOT_SITE"])
    for package in ("mkdocs", "material", "mkdocstrings_handlers.python", "latex2mathml"):
        pytest.importorskip(package, reason="needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


class Links(HTMLParser):
    """The ids of a page, where its links lead, and what it loads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") not in {"canonical", "prev", "next"}:
            self.loaded.append(values.get("href", ""))
        elif "src" in values:
            self.loaded.append(values["src"])


def test_every_link_leads_somewhere_and_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = {page.resolve(): Links(page) for page in site.rglob("*.html") if page.name != "404.html"}
    assert len(pages) > 40
    dead = []
    for page, found in pages.items():
        for link in found.links + found.loaded:
            parts = urlsplit(link)
            if parts.scheme in {"https", "data", "mailto"} and (parts.scheme == "data" or link in found.links):
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            known = target.exists() and not parts.scheme and not parts.netloc
            if not known or (parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids):
                dead.append(f"{page.name}: {link}")
    assert dead == []


def opened(browser: Browser, page: Path, width: int = 1400) -> Browser:
    browser.emulate(width=width)
    browser.log("performance")  # discard the log of other tests
    browser.driver.get(page.as_uri())
    return browser


def requests(browser: Browser) -> list[str]:
    messages = [json.loads(entry["message"])["message"] for entry in browser.log("performance")]
    return [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]


def test_the_home_page_has_text_code_and_picture(site: Path, browser: Browser) -> None:
    opened(browser, site / "index.html")
    assert browser.find("h1").text.startswith("singleshot")
    assert "ss.vwci_loss(passes, labels)" in browser.find("pre code").text
    assert browser.js("return document.querySelector('article img').naturalWidth") > 100


def test_the_search_works_from_disk_and_nothing_else_is_requested(site: Path, browser: Browser) -> None:
    opened(browser, site / "index.html")
    browser.find(".md-search__input").send_keys("vwci_loss")
    browser.wait("return document.querySelector('a.md-search-result__link') !== null")
    links = browser.js("return [...document.querySelectorAll('a.md-search-result__link')].map((it) => it.href)")
    assert links[1].endswith("api/losses.html?h=vwci_loss#singleshot.vwci_loss")  # the first section of the first page
    found = requests(browser)
    assert len(found) > 5
    assert [url for url in found if not url.startswith(("file:", "data:", "blob:", "about:"))] == []


def test_the_palette_follows_its_switch(site: Path, browser: Browser) -> None:
    opened(browser, site / "method.html")
    background = "return getComputedStyle(document.body).backgroundColor"
    light = browser.js(background)
    browser.find("label[title='Use the dark palette']").click()
    browser.wait("return document.body.dataset.mdColorScheme === 'slate'")
    assert browser.js(background) != light
    browser.find("label[title='Use the light palette']").click()
    browser.wait("return document.body.dataset.mdColorScheme === 'default'")
    assert browser.js(background) == light


@pytest.mark.parametrize(
    "page", ["index", "method", "results", "predictions", "api/losses", "notebooks/trust-predictions"]
)
def test_no_page_is_wider_than_a_phone(site: Path, browser: Browser, page: str) -> None:
    opened(browser, site / f"{page}.html", width=390)
    assert browser.js("return document.documentElement.scrollWidth") <= 390


def test_formulas_are_drawn(site: Path, browser: Browser) -> None:
    opened(browser, site / "method.html")
    heights = browser.js("return [...document.querySelectorAll('math')].map((it) => it.getBoundingClientRect().height)")
    assert len(heights) > 20
    assert min(heights) > 5
    assert "$" not in browser.find("article").text


def text_of(outputs: list[dict[str, Any]]) -> str:
    """The text of the outputs of a cell, with a sign in place of every number and no line breaks."""
    texts = ["".join(one.get("text", one.get("data", {}).get("text/plain", ""))) for one in outputs]
    return " ".join(re.sub(r"[-+]?\d[\d.,]*", "#", " ".join(texts)).split())


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_and_their_outputs_are_up_to_date(path: Path) -> None:
    for package in ("nbclient", "ipykernel"):
        pytest.importorskip(package, reason="needs the extra docs")
    from execute_notebooks import executed

    stored = json.loads(path.read_text(encoding="utf-8"))["cells"]
    for before, after in zip(stored, executed(path).cells, strict=True):
        if before["cell_type"] == "code":
            assert text_of(before["outputs"]) == text_of(after["outputs"]), "run `make notebooks`"


def test_stored_notebooks_have_outputs_and_no_path_of_a_machine() -> None:
    assert len(NOTEBOOKS) == 2
    for path in NOTEBOOKS:
        text = path.read_text(encoding="utf-8")
        assert '"image/png"' in text
        assert "Traceback" not in text
        assert MACHINE_PATH.findall(re.sub(r"[A-Za-z0-9+/=]{200,}", "", text)) == []  # without the pictures
