"""Sorted, opened and filtered parts keep their state when they are redrawn, also for print."""

from __future__ import annotations

from reporting.browser.chromium import Browser
from reporting.browser.pages import NAMES

OPEN = "return document.querySelector(arguments[0]).open"


def names(browser: Browser, section: str) -> list[str]:
    """The first column of each table."""
    return browser.column(f"#{section} tbody th")


def test_the_legend_keeps_the_table_of_the_curves_open_and_sorted(opened: Browser) -> None:
    opened.unfold("#curves details")
    opened.find("#curves th:nth-child(1) button").click()
    before = names(opened, "curves")
    opened.find("#curves .legend button").click()
    assert opened.js(OPEN, "#curves details")
    assert names(opened, "curves") == before
    assert opened.find("#curves th:nth-child(1)").get_attribute("aria-sort") == "ascending"


def test_the_slider_keeps_the_table_of_the_bins_open_and_sorted(opened: Browser) -> None:
    figure = "#reliability figure[data-model=mild]"
    opened.unfold(f"{figure} details")
    opened.find(f"{figure} th:nth-child(2) button").click()
    opened.set("#bins", 0)
    assert opened.find(f"{figure} th:nth-child(2)").get_attribute("aria-sort") == "descending"
    assert len(opened.all("#reliability details[open]")) == 1
    opened.find(f"{figure} summary").click()
    opened.wait(f"return !document.querySelector('{figure} details').open")
    opened.settle()  # the event that tells of it comes later
    opened.set("#bins", 1)
    assert opened.all("#reliability details[open]") == []


def test_tables_stay_open_when_the_width_changes(opened: Browser) -> None:
    for section in ("passes", "training"):
        opened.unfold(f"#{section} details")
        opened.js("document.querySelector(arguments[0]).dataset.old = ''", f"#{section} details")
    opened.emulate(width=900)
    for section in ("passes", "training"):
        opened.wait(f"return !('old' in document.querySelector('#{section} details').dataset)")
        assert opened.js(OPEN, f"#{section} details")


def test_another_model_keeps_the_classes_sorted(opened: Browser) -> None:
    opened.find("#classes th:nth-child(1) button").click()
    opened.find("#confusions th:nth-child(2) button").click()
    before = names(opened, "classes")
    opened.choose("#classes [data-picker]", "mild")
    assert names(opened, "classes") == before
    assert len(before) == len(NAMES)
    assert opened.find("#classes th:nth-child(1)").get_attribute("aria-sort") == "ascending"
    opened.choose("#classes [data-picker]", "sharp")
    assert opened.find("#confusions th:nth-child(2)").get_attribute("aria-sort") == "ascending"


def test_print_keeps_the_order_of_the_metrics_in_every_table(opened: Browser) -> None:
    opened.find("#all-metrics").click()
    for column in (3, 9):
        head = f"#metrics th:nth-child({column})"
        opened.find(f"{head} button").click()
        opened.find(f"{head} button").click()
        before, order = names(opened, "metrics"), opened.find(head).get_attribute("aria-sort")
        opened.print()
        assert len(opened.all("#metrics table")) == 3
        assert names(opened, "metrics") == before * 3
        opened.end_print()
        assert names(opened, "metrics") == before
        assert opened.find(head).get_attribute("aria-sort") == order


def test_print_opens_everything_and_restores_the_state_afterwards(opened: Browser) -> None:
    opened.find("#recipe details:nth-of-type(2) summary").click()
    opened.settle()
    for meanings in (False, True):
        opened.print()
        assert all(one.is_displayed() for one in opened.all("#metrics dl, #recipe pre"))
        assert len(opened.all("#recipe details[open]")) == 3
        opened.settle()
        opened.end_print()
        opened.settle()
        assert [one.get_attribute("open") for one in opened.all("#recipe details")] == [None, "true", None]
        assert opened.js(OPEN, "#metrics details") is meanings
        opened.js("document.querySelector('#metrics details').open = true")
        opened.settle()


def test_print_shows_the_filter_of_the_classes(opened: Browser) -> None:
    opened.print()
    opened.emulate(media="print")
    assert opened.find("#classes .print-only").text == "Model: sharp"
    opened.end_print()
    opened.emulate()
    opened.find("#class-filter").send_keys("PROUD")
    opened.print()
    opened.emulate(media="print")
    assert opened.find("#classes .print-only").text == f"Model: sharp. Filtered by “proud”: 1 of {len(NAMES)} classes"
    assert names(opened, "classes") == [NAMES[2]]
    opened.end_print()
    assert len(opened.all("#classes tr[data-class]")) == len(NAMES)
