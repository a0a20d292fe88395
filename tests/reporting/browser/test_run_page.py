"""The page of a trained run: images, stochastic passes and training curves are drawn."""

from __future__ import annotations

from pathlib import Path

from reporting.browser.chromium import Browser
from reporting.browser.pages import SECTIONS
from singleshot.reporting.page import run_report, write_page


def test_a_run_shows_its_images_passes_and_training(browser: Browser, trained: Path, tmp_path: Path) -> None:
    write_page([run_report(trained, name="a run", replicates=20)], tmp_path / "run.html", title="A run", replicates=20)
    browser.open(tmp_path / "run.html")
    displayed = [section for section in SECTIONS if browser.find(f"#{section}").is_displayed()]
    assert set(SECTIONS) - set(displayed) == {"comparisons"}  # a single model
    images = "[...document.querySelectorAll('#inspection img')]"
    browser.js(f"{images}.forEach((it) => it.scrollIntoView())")
    browser.wait(f"return {images}.every((it) => it.complete)")
    assert browser.js(f"return {images}.filter((it) => it.naturalWidth === 0).length") == 0
    assert len(browser.all("#inspection img")) > 24
    assert len(browser.all("#training svg[role=img] .model-line")) == 5  # loss, two accuracies, ECE and NLL
    assert len(browser.all("#passes .column .bar")) > 0
    assert browser.find("#passes .values").text.startswith("5 passes over ")
    browser.unfold("#passes details")
    browser.unfold("#training details")
    assert len(browser.all("#training tbody tr")) == 2
    assert "resnet18" in browser.find("#recipe .facts").text
