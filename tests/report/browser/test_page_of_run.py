"""The page of a real run: what only a run has is drawn from what Python makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from report.browser.chromium import Browser
from report.browser.pages import SECTIONS
from singleshot.report.page import write_page
from singleshot.report.page.run_subject import subject_of_run
from singleshot.training import Recipe, train


@pytest.fixture(scope="module")
def page_of_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    recipe = Recipe(dataset="digits", model="resnet18", width=0.125, train_images=60, validation=0.1, epochs=1)
    train(recipe, folder / "run")
    path = folder / "report.html"
    write_page([subject_of_run(folder / "run", name="a run", replicates=20)], path, title="A run", replicates=20)
    return path


def test_a_run_shows_its_pictures_its_passes_and_its_training(browser: Browser, page_of_run: Path) -> None:
    browser.open(page_of_run)
    displayed = [section for section in SECTIONS if browser.find(f"#{section}").is_displayed()]
    assert set(SECTIONS) - set(displayed) == {"comparisons"}  # with nothing else on the page
    pictures = "[...document.querySelectorAll('#gallery img')]"
    browser.js(f"{pictures}.forEach((it) => it.scrollIntoView())")
    browser.wait(f"return {pictures}.every((it) => it.complete)")
    assert browser.js(f"return {pictures}.filter((it) => it.naturalWidth === 0).length") == 0
    assert len(browser.all("#gallery img")) > 24
    assert len(browser.all("#training svg[role=img] .model-line")) == 5  # loss, two accuracies, ECE and NLL
    assert len(browser.all("#passes .column .bar")) > 0
    assert browser.find("#passes .readings").text.startswith("5 passes over ")
    browser.unfold("#passes details")
    browser.unfold("#training details")
    assert len(browser.all("#training tbody tr")) == 1
    assert "resnet18" in browser.find("#recipe .facts").text
