"""The browser of the tests of the report page, which the tests of the documentation site use as well."""

from reporting.browser.conftest import browser, started

__all__ = ["browser", "started"]
