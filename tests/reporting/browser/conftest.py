"""Fixtures of the tests of the report page in a browser; `started` and `browser` are in tests/conftest.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from reporting.browser.chromium import Browser
from reporting.browser.pages import write_three


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_three(tmp_path_factory.mktemp("page"))


@pytest.fixture
def opened(browser: Browser, page: Path) -> Browser:
    browser.open(page)
    return browser
