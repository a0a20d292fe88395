"""The page makes no requests, logs nothing and runs only its own script."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reporting.browser.chromium import Browser
from reporting.browser.pages import BREAKOUT, HOSTILE, MODELS


def test_no_request_leaves_the_page(opened: Browser) -> None:
    opened.js("scrollTo(0, document.body.scrollHeight)")
    for details in opened.all("details"):
        opened.js("arguments[0].open = true", details)
    messages = [json.loads(entry["message"])["message"] for entry in opened.log("performance")]
    urls = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
    assert any(url.startswith("file:") for url in urls)  # requests are logged
    assert [url for url in urls if not url.startswith(("file:", "data:"))] == []
    assert sum(url.startswith("file:") for url in urls) == 1


def test_hostile_names_show_as_text_and_no_dialog_opens(opened: Browser) -> None:
    from selenium.common.exceptions import NoAlertPresentException

    assert opened.find("h1").text == f"Report of {HOSTILE}"
    assert {HOSTILE, BREAKOUT} <= set(opened.column("#classes tbody th"))
    assert opened.find("#inspection figcaption strong").get_attribute("textContent") == BREAKOUT
    assert "<b>small & bold</b>" in opened.column("#verdicts .model-name")
    assert HOSTILE in opened.find("#recipe .facts").get_attribute("textContent")
    assert opened.js("return document.scripts.length") == 2  # the data and the page's script
    with pytest.raises(NoAlertPresentException):
        _ = opened.driver.switch_to.alert.text


def test_other_scripts_and_styles_are_blocked(opened: Browser) -> None:
    opened.js("""
      const image = document.createElement("img");
      image.setAttribute("onerror", "window.ran = 'onerror'");
      image.addEventListener("error", () => { window.failed = true; });
      image.src = "x.png";
      const script = document.createElement("script");
      script.textContent = "window.ran = 'script'";
      const style = document.createElement("style");
      style.textContent = "h1 { display: none }";
      document.body.append(image, script, style);
    """)
    opened.wait("return window.failed")  # the handler could have run
    assert opened.js("return window.ran") is None
    assert opened.find("h1").is_displayed()
    messages = [entry["message"] for entry in opened.log("browser")]
    assert len(messages) >= 3
    assert all("Content Security Policy" in message for message in messages)


def test_verdicts_are_shown_without_javascript(browser: Browser, page: Path) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.driver.get(page.as_uri())
        assert [one.text for one in browser.all("#verdicts dt")] == list(MODELS)
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
