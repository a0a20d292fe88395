"""The page of a grid: which of its methods are shown, and that others are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fake_results import full_store
from singleshot.grid.store import ResultStore
from singleshot.paper import exhibition as grid_page
from singleshot.paper.exhibits import Grid, chosen_smoothing
from singleshot.paper.methods import base_recipe

BASE = base_recipe("small", dataset="cifar100", model="resnet18")


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What would be written."""
    found: dict[str, Any] = {}

    def write_page(subjects: Any, path: Path, *, title: str) -> None:
        found.update(names=list(subjects), title=title, path=path)

    monkeypatch.setattr(grid_page, "write_page", write_page)
    monkeypatch.setattr(grid_page, "run_report", lambda folder, name, **_: name)
    return found


def test_the_right_baselines_come_first_and_it_is_said_that_there_are_others(
    written: dict[str, Any], tmp_path: Path
) -> None:
    store = full_store("table1")
    assert chosen_smoothing(BASE, store) is not None
    for key in store.results:
        (tmp_path / key).mkdir()
    grid = Grid(("table1",), (BASE,), 3)
    assert grid_page.write_grid_page([grid], store, tmp_path, tmp_path / "page.html")
    assert written["names"][:3] == ["Baseline", "VWCI", "Cross-entropy, T = 5"]
    assert written["names"][3].startswith("Label smoothing, ε = ")
    assert written["names"][4:] == ["Focal, γ = 3", "VWCI, total variation", "VWCI, epistemic", "CI, β = 0.1"]
    assert written["title"] == "resnet18 on cifar100: can its scores be trusted? (8 of 16 methods)"


def test_a_few_methods_are_all_shown(written: dict[str, Any], tmp_path: Path) -> None:
    store = full_store("table1")
    for key in store.results:
        (tmp_path / key).mkdir()
    assert grid_page.write_grid_page([Grid(("fig1",), (BASE,), 3)], store, tmp_path, tmp_path / "page.html")
    assert written["names"] == [
        "Baseline",
        "VWCI",
        "CI, β = 0.1",
        *(f"CI, β = {b}" for b in ("1", "0.01", "0.001", "0.0001")),
    ]
    assert written["title"] == "resnet18 on cifar100: can its scores be trusted?"


def test_without_a_finished_run_on_this_machine_there_is_no_page(written: dict[str, Any], tmp_path: Path) -> None:
    grid = Grid(("table1",), (BASE,), 3)
    assert not grid_page.write_grid_page([grid], full_store("table1"), tmp_path, tmp_path / "page.html")
    assert not grid_page.write_grid_page([grid], ResultStore(tmp_path), tmp_path, tmp_path / "page.html")
    assert written == {}
