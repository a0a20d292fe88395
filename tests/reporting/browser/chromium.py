"""Chromium with a page, driven by Selenium."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
IS_INSTALLED = bool(CHROMIUM and DRIVER)
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
)  # fmt: skip
DEADLINE = 20
TEXTS = """return [...document.querySelectorAll(arguments[0])]
  .map((it) => it.checkVisibility() ? it.innerText.replace(/\\s+/g, " ").trim() : "")"""


class Browser:
    """A page in Chromium and the actions of the tests."""

    def __init__(self, profile: Path) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))

    def open(self, page: Path) -> None:
        self.emulate(width=1400)
        self.log("performance")  # discard the log of other tests
        self.driver.get(page.as_uri())
        self.wait("return 'ready' in document.documentElement.dataset")

    def emulate(self, width: int = 1400, **media: Any) -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)

    def log(self, kind: str) -> list[dict[str, Any]]:
        return list(self.driver.get_log(kind))  # type: ignore[no-untyped-call]

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, script: str) -> None:
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, DEADLINE).until(lambda _: self.js(script))

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements("css selector", selector)

    def set(self, selector: str, value: object, event: str = "input") -> None:
        """Set a value and dispatch the event of the change."""
        script = "const it = document.querySelector(arguments[0]); it.value = arguments[1];"
        self.js(script + "it.dispatchEvent(new Event(arguments[2], {bubbles: true}))", selector, str(value), event)

    def choose(self, selector: str, text: str) -> None:
        from selenium.webdriver.support.ui import Select

        Select(self.find(selector)).select_by_visible_text(text)

    def tab(self) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys("\ue004").perform()

    def unfold(self, selector: str) -> None:
        """Click the summary of a <details> element and wait for its table."""
        self.find(f"{selector} > summary").click()
        self.wait(f"return document.querySelector('{selector} td') !== null")

    def settle(self) -> None:
        """Wait for events that the browser dispatches later, such as toggle."""
        self.js("return new Promise((done) => setTimeout(done, 50))")

    def print(self) -> None:
        """Switch the page to its print version."""
        self.js("dispatchEvent(new Event('beforeprint'))")

    def end_print(self) -> None:
        self.js("dispatchEvent(new Event('afterprint'))")

    def number(self, selector: str) -> float:
        return float(self.find(selector).get_attribute("value"))

    def column(self, selector: str) -> list[str]:
        """Return the visible text of all matching elements, in one call to the browser."""
        return list(self.js(TEXTS, selector))
