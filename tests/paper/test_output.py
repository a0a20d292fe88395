"""Names and contents of the files written from the results of a grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fake_results import BASE, RESNET, VGG, drawn_store, fake, full_store, store_of
from singleshot.grid.store import ResultStore
from singleshot.paper import output
from singleshot.paper.experiments import PaperGrid, select_smoothing
from singleshot.paper.methods import Scale, base_recipe
from singleshot.paper.output import write_grid_page, write_output


def test_figures_are_named_after_their_networks(tmp_path: Path) -> None:
    store = drawn_store(methods=["baseline"])
    for number, bases in enumerate([(RESNET,), (VGG,), (RESNET, VGG)]):
        folder = tmp_path / str(number)
        made = write_output([PaperGrid(("fig2",), bases, seeds=3)], store, folder)
        name = "-".join(["fig2", "digits", *(base.model for base in bases)])
        assert list(made.numbers) == [name]
        assert sorted(path.name for path in (folder / "figures").iterdir()) == [f"{name}.json", f"{name}.png"]


def test_scales_have_different_file_names(tmp_path: Path) -> None:
    scales: tuple[Scale, ...] = ("small", "paper")
    bases = [base_recipe(scale, dataset="cifar100", model="vgg16") for scale in scales]
    store = store_of(*(fake(base, "baseline", 0) for base in bases))
    for base in bases:
        made = write_output([PaperGrid(("table1", "fig1"), (base,), seeds=1)], store, tmp_path)
        assert made.missing == []
    tables = {f"table1-cifar100-vgg16{end}" for end in (".txt", ".md", ".tex", ".csv")}
    of_paper = {name.replace(".", "-paper.") for name in tables}
    assert {path.name for path in (tmp_path / "tables").iterdir()} == tables | of_paper
    figures = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert figures == {"fig1-cifar100-vgg16", "fig1-cifar100-vgg16-paper"}


def test_figures_without_runs_are_reported(tmp_path: Path) -> None:
    made = write_output([PaperGrid(("fig2",), (RESNET,), seeds=1)], store_of(), tmp_path)
    assert made.numbers == {}
    (reason,) = made.missing
    assert reason.startswith("fig2-digits-resnet18: fig2 has nothing to draw: these runs are missing: ")


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The arguments of the page writer."""
    found: dict[str, Any] = {}

    def write_page(subjects: Any, path: Path, *, title: str) -> None:
        found.update(names=list(subjects), title=title, path=path)

    monkeypatch.setattr(output, "write_page", write_page)
    monkeypatch.setattr(output, "run_report", lambda folder, name, **_: name)
    return found


def test_the_page_shows_the_main_methods_first_and_counts_the_others(written: dict[str, Any], tmp_path: Path) -> None:
    store = full_store("table1")
    assert select_smoothing(BASE, store) is not None
    for key in store.results:
        (tmp_path / key).mkdir()
    grid = PaperGrid(("table1",), (BASE,), 3)
    write_grid_page(grid, store, tmp_path, tmp_path / "page.html")
    assert written["names"][:3] == ["Baseline", "VWCI", "Cross-entropy, T = 5"]
    assert written["names"][3].startswith("Label smoothing, ε = ")
    assert written["names"][4:] == ["Focal, γ = 3", "VWCI, total variation", "VWCI, epistemic", "CI, β = 0.1"]
    assert written["title"] == "resnet18 on cifar100: can its scores be trusted? (8 of 16 methods)"


def test_the_page_shows_all_of_a_few_methods(written: dict[str, Any], tmp_path: Path) -> None:
    store = full_store("table1")
    for key in store.results:
        (tmp_path / key).mkdir()
    write_grid_page(PaperGrid(("fig1",), (BASE,), 3), store, tmp_path, tmp_path / "page.html")
    assert written["names"] == [
        "Baseline",
        "VWCI",
        "CI, β = 0.1",
        *(f"CI, β = {b}" for b in ("1", "0.01", "0.001", "0.0001")),
    ]
    assert written["title"] == "resnet18 on cifar100: can its scores be trusted?"


def test_there_is_no_page_without_finished_runs_on_this_machine(written: dict[str, Any], tmp_path: Path) -> None:
    grid = PaperGrid(("table1",), (BASE,), 3)
    write_grid_page(grid, full_store("table1"), tmp_path, tmp_path / "page.html")
    write_grid_page(grid, ResultStore(tmp_path), tmp_path, tmp_path / "page.html")
    assert written == {}
