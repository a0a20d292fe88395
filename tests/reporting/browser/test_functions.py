"""Pure functions of the page against their counterparts in Python."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np

from reporting.browser.chromium import Browser
from reporting.browser.pages import passes, regrouped
from singleshot.metrics.intervals import wilson_interval


def computed(browser: Browser, scripts: tuple[str, ...], call: str, argument: Any) -> Any:
    """Call a function of the page's scripts."""
    folder = files("singleshot.reporting.page") / "assets"
    sources = "\n".join((folder / name).read_text(encoding="utf-8") for name in scripts)
    return browser.js(f"{sources}\nreturn {call}", argument)


def test_metrics_are_formatted_like_python(browser: Browser) -> None:
    powers = [
        sign * digits * 10.0**power for sign in (1, -1) for digits in (1, 1.2345678, 9.9996) for power in range(33)
    ]
    ties = [1234.5, 1235.5, 9999.5, 123450, 123550, 999_950, 12_345_000]
    values = [0.5, 999.99996, 1000, 123456, 1e30, 1e308, -1234.5, *powers, *ties]
    shown = computed(browser, ("text.js",), "arguments[0].map(metricText)", values)
    assert shown == [f"{value:.4f}" if abs(value) < 1000 else f"{value:.4g}" for value in values]
    assert shown[3:5] == ["1.235e+05", "1e+30"]


def test_only_all_is_shown_as_100_percent(browser: Browser) -> None:
    shares = [1, 0, 0.5, 0.9996, 0.9999999, 1 - 1e-9, 1 - 1e-16, 1e-12]
    expected = ["100.0 %", "0.0 %", "50.0 %", "99.96 %", "99.99999 %", "> 99.99999 %", "> 99.99999 %", "< 0.00001 %"]
    shown = computed(browser, ("text.js",), "arguments[0].map(percentText)", shares)
    assert shown == expected


def test_the_bars_of_passes_cover_the_range_in_use(browser: Browser) -> None:
    for last, wide, bars in ((1, 1, 1), (20, 1, 20), (21, 2, 11), (57, 3, 19), (200, 10, 20)):
        found = passes()
        random = np.random.default_rng(last)
        count = np.where(np.arange(200) < last, random.integers(0, 2, 200) * random.integers(1, 9, 200), 0)
        count[last - 1] = 3
        values = [np.where(count > 0, random.random(200), np.nan) for _ in range(2)]
        found |= {"count": count.tolist(), "coverage": (count.cumsum() / count.sum()).tolist()}
        found |= {"accuracy": values[0].tolist(), "score": values[1].tolist()}
        sent = found | {field: [None if np.isnan(x) else x for x in found[field]] for field in ("accuracy", "score")}
        shown = computed(browser, ("bins.js",), "passesBars(arguments[0]).map((bar) => Object.values(bar))", sent)
        np.testing.assert_allclose(np.array(shown, float), regrouped(found, wide, bars), rtol=1e-12)


def test_whiskers_are_wilson_intervals(browser: Browser) -> None:
    pairs = [(correct, count) for count in (1, 2, 30, 10_000) for correct in {0, 1, count // 3, count}]
    bins = [{"accuracy": correct / count, "count": count} for correct, count in pairs]
    shown = computed(browser, ("bins.js",), "arguments[0].map(wilson).map(({low, high}) => [low, high])", bins)
    low, high = wilson_interval([correct for correct, _ in pairs], [count for _, count in pairs])
    np.testing.assert_allclose(np.array(shown), np.stack([low, high], 1), atol=1e-12)
