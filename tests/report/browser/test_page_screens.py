"""Every screen: dark and light, a phone, a keyboard, and paper."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from report.browser.chromium import Browser
from report.browser.pages import SECTIONS

BROKEN = """return [...document.querySelectorAll("#metrics data")]
  .filter((it) => it.getClientRects().length > 1).map((it) => it.textContent)"""  # numbers on two lines


def background(browser: Browser) -> str:
    return str(browser.js("return getComputedStyle(document.documentElement).backgroundColor"))


def test_the_dark_is_the_readers_choice(opened: Browser) -> None:
    light = background(opened)
    opened.find("#theme").click()
    dark = background(opened)
    assert dark != light
    opened.find("#theme").click()
    assert background(opened) == light


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
    from selenium.webdriver.common.action_chains import ActionChains

    seen = set()
    for _ in range(120):
        ActionChains(opened.driver).send_keys("\ue004").perform()  # tab
        seen.add(opened.js("return document.activeElement.id || document.activeElement.className"))
        if "threshold-range" in seen:
            break
    assert {"theme", "shown", "bins", "log", "threshold-range"} <= seen
    assert opened.js("return getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_on_paper_every_section_is_shown_in_light_colours_without_controls(opened: Browser) -> None:
    opened.find("#theme").click()
    opened.emulate(media="print")
    opened.js("dispatchEvent(new Event('beforeprint'))")
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
