"""Every screen: dark and light, a phone, a keyboard, and paper."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from report.browser.chromium import Browser
from report.browser.pages import MODELS, SECTIONS

IDS = (
    "theme", "shown", "bins", "log", "threshold-range", "threshold-number", "wanted", "try-threshold", "class-filter",
)  # fmt: skip
NAMED = """const named = (it) => it.id ? `#${it.id}` : it.dataset.picker !== undefined
    ? `picker of ${it.closest("section").id}` : it.closest(".legend") ? `legend ${it.dataset.model}` : it.tagName;"""
CONTROLS = f"""{NAMED} return [...document.querySelectorAll(
  "#theme, #shown, input, [data-picker], .legend button, #try-threshold")].map(named)"""
FOCUSED = f"""{NAMED} const it = document.activeElement; return it === document.body ? null : named(it)"""
BROKEN = """return [...document.querySelectorAll("#metrics data")]
  .filter((it) => it.getClientRects().length > 1).map((it) => it.textContent)"""  # numbers on two lines


COLOURS = """
  const probe = document.querySelector(".card").appendChild(document.createElement("p"));
  const lines = Array.from({length: 7}, (_, index) => {
    probe.className = `series-${index}`;
    probe.style.color = "var(--series)";
    return getComputedStyle(probe).color;
  });
  return [getComputedStyle(document.querySelector(".card")).backgroundColor, ...lines]"""


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, as WCAG 2 defines it."""

    def luminance(colour: str) -> float:
        shares = [int(part) / 255 for part in re.findall(r"\d+", colour)]
        linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def background(browser: Browser) -> str:
    return str(browser.js("return getComputedStyle(document.documentElement).backgroundColor"))


def test_the_dark_is_the_readers_choice(opened: Browser) -> None:
    light = background(opened)
    opened.find("#theme").click()
    dark = background(opened)
    assert dark != light
    opened.find("#theme").click()
    assert background(opened) == light
    assert opened.find("#theme").get_attribute("aria-pressed") is None  # its words say what it does


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_models_line_is_seen_on_its_ground(opened: Browser, theme: str) -> None:
    opened.js("document.documentElement.dataset.theme = arguments[0]", theme)
    ground, *lines = opened.js(COLOURS)
    assert len(set(lines)) == 7
    assert {line: contrast(line, ground) for line in lines if contrast(line, ground) < 3} == {}


def test_the_dark_follows_the_system(browser: Browser, page: Path) -> None:
    browser.open(page)
    light = background(browser)
    browser.emulate(features=[{"name": "prefers-color-scheme", "value": "dark"}])
    dark = background(browser)
    assert dark != light
    browser.find("#theme").click()
    assert background(browser) == light


@pytest.mark.parametrize("width", [320, 375, 1400])
def test_nothing_but_tables_scrolls_sideways(opened: Browser, width: int) -> None:
    opened.emulate(width=width)
    # Charts are drawn anew for the width there is.
    opened.wait(f"return document.querySelector('#reliability .chart').getBoundingClientRect().right <= {width}")
    assert opened.js("return document.documentElement.scrollWidth") <= width


def test_the_keyboard_reaches_every_control_and_the_focus_is_seen(opened: Browser) -> None:
    opened.set("#wanted", 60)  # so that there is a threshold to try
    controls = opened.js(CONTROLS)
    assert set(controls) > {f"#{name}" for name in IDS}
    assert len([name for name in controls if name.startswith("picker")]) == 5
    assert len([name for name in controls if name.startswith("legend")]) == len(MODELS)
    reached: list[str | None] = []
    while len(reached) < 300 and not (reached and reached[-1] is None):  # None: beyond the last, the page has no focus
        opened.tab()
        reached.append(opened.js(FOCUSED))
        assert opened.js("return getComputedStyle(document.activeElement).outlineStyle") == "solid" or not reached[-1]
    assert [name for name in reached if name in controls] == controls  # each once, in the order of the page


def test_on_paper_every_section_is_shown_in_light_colours_without_controls(opened: Browser) -> None:
    opened.find("#theme").click()
    opened.emulate(media="print")
    opened.print()
    assert background(opened) == "rgb(255, 255, 255)"
    assert all(opened.find(f"#{section} .body, #{section} .split").is_displayed() for section in SECTIONS)
    assert [one for one in opened.all(".controls, nav, #theme") if one.is_displayed()] == []
    assert all(one.is_displayed() for one in opened.all("#recipe pre"))
    assert {"Model: sharp", "Model: sharp. Confidence of at least 0.9", "Model: sharp. Wanted accuracy: 95 %"} <= set(
        opened.column(".only-paper")
    )
    assert opened.js(BROKEN) == []
    assert len(opened.all("#metrics table")) == 3  # one would be too wide for paper
    pdf = base64.b64decode(opened.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert pdf.startswith(b"%PDF")
