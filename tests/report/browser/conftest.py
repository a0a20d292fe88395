"""Tests of the report page in a browser; they are skipped where there is none, and fail where there must be one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from report.browser.chromium import IS_THERE, Browser
from report.browser.pages import write_three

NO_BROWSER = "no browser: the report page is tested where Debian's packages chromium and chromium-driver are installed"


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not IS_THERE:
        if os.environ.get("SINGLESHOT_NEEDS_BROWSER"):
            pytest.fail(NO_BROWSER)  # as .ci/run says
        pytest.skip(NO_BROWSER)
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.driver.quit()


@pytest.fixture
def browser(started: Browser) -> Iterator[Browser]:
    """A page must leave the console empty; a test that expects messages takes them from it."""
    started.log("browser")  # what came before is of other tests
    yield started
    assert started.log("browser") == []


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_three(tmp_path_factory.mktemp("page"))


@pytest.fixture
def opened(browser: Browser, page: Path) -> Browser:
    browser.open(page)
    return browser
