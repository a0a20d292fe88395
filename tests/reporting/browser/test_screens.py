"""Dark and light themes, small screens, keyboard and print."""

from __future__ import annotations

import base64
import re

from reporting.browser.chromium import Browser
from reporting.browser.pages import MODELS, SECTIONS

IDS = (
    "theme", "shown", "bins", "log", "threshold-range", "threshold-number", "target", "try-threshold", "class-filter",
)  # fmt: skip
NAMED = """const named = (it) => it.id ? `#${it.id}` : it.dataset.picker !== undefined
    ? `picker of ${it.closest("section").id}` : it.closest(".legend") ? `legend ${it.dataset.model}` : it.tagName;"""
CONTROLS = f"""{NAMED} return [...document.querySelectorAll(
  "#theme, #shown, input, [data-picker], .legend button, #try-threshold")].map(named)"""
FOCUSED = f"""{NAMED} const it = document.activeElement;
  return [it === document.body ? null : named(it), getComputedStyle(it).outlineStyle]"""
BROKEN = """return [...document.querySelectorAll("#metrics data")]
  .filter((it) => it.getClientRects().length > 1).map((it) => it.textContent)"""  # numbers that wrap


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


def test_the_theme_follows_the_system_and_the_button(opened: Browser) -> None:
    light = background(opened)
    opened.find("#theme").click()
    dark = background(opened)
    assert dark != light
    opened.find("#theme").click()
    assert background(opened) == light
    assert opened.find("#theme").get_attribute("aria-pressed") is None  # its text says what it does
    opened.js("delete document.documentElement.dataset.theme")
    opened.emulate(features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert background(opened) == dark
    opened.find("#theme").click()
    assert background(opened) == light


def test_every_line_has_enough_contrast_in_both_themes(opened: Browser) -> None:
    for theme in ("light", "dark"):
        opened.js("document.documentElement.dataset.theme = arguments[0]", theme)
        ground, *lines = opened.js(COLOURS)
        assert len(set(lines)) == 7
        assert {line: contrast(line, ground) for line in lines if contrast(line, ground) < 3} == {}


def test_only_tables_scroll_sideways(opened: Browser) -> None:
    for width in (1400, 375, 320):
        opened.emulate(width=width)  # the charts are redrawn
        opened.wait(f"return document.querySelector('#reliability .chart').getBoundingClientRect().right <= {width}")
        assert opened.js("return document.documentElement.scrollWidth") <= width


def test_the_keyboard_reaches_every_control_with_a_visible_focus(opened: Browser) -> None:
    opened.set("#target", 60)  # has a threshold to try
    controls = opened.js(CONTROLS)
    assert set(controls) > {f"#{name}" for name in IDS}
    assert len([name for name in controls if name.startswith("picker")]) == 5
    assert len([name for name in controls if name.startswith("legend")]) == len(MODELS)
    reached: list[str | None] = []
    while len(reached) < 300 and not (reached and reached[-1] is None):  # None: the focus left the page
        opened.tab()
        focused, outline = opened.js(FOCUSED)
        reached.append(focused)
        assert outline == "solid" or focused is None
    assert [name for name in reached if name in controls] == controls  # each once, in page order


def test_print_shows_every_section_in_light_colours_without_controls(opened: Browser) -> None:
    opened.find("#theme").click()
    opened.emulate(media="print")
    opened.print()
    assert background(opened) == "rgb(255, 255, 255)"
    assert all(opened.find(f"#{section} .body, #{section} .split").is_displayed() for section in SECTIONS)
    assert [one for one in opened.all(".controls, nav, #theme") if one.is_displayed()] == []
    assert all(one.is_displayed() for one in opened.all("#recipe pre"))
    assert {"Model: sharp", "Model: sharp. Minimum confidence: 0.9", "Model: sharp. Target accuracy: 95 %"} <= set(
        opened.column(".print-only")
    )
    assert opened.js(BROKEN) == []
    assert len(opened.all("#metrics table")) == 3  # a single one would be too wide
    pdf = base64.b64decode(opened.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert pdf.startswith(b"%PDF")
