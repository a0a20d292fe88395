"""Fixtures of the browser tests, which are skipped without a browser unless SINGLESHOT_NEEDS_BROWSER is set."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from reporting.browser.chromium import IS_INSTALLED, Browser
from reporting.browser.pages import write_three

NO_BROWSER = "install Chromium and its driver (apt-get install chromium chromium-driver) to test the page in a browser"


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not IS_INSTALLED:
        if os.environ.get("SINGLESHOT_NEEDS_BROWSER"):
            pytest.fail(NO_BROWSER)  # as in .ci/run
        pytest.skip(NO_BROWSER)
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.driver.quit()


@pytest.fixture
def browser(started: Browser) -> Iterator[Browser]:
    """The shared browser; the console must be empty after the test."""
    started.log("browser")  # discard the log of other tests
    yield started
    assert started.log("browser") == []


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_three(tmp_path_factory.mktemp("page"))


@pytest.fixture
def opened(browser: Browser, page: Path) -> Browser:
    browser.open(page)
    return browser
