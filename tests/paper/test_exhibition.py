from __future__ import annotations

from pathlib import Path

import pytest

from fake_results import RESNET, VGG, drawn_store, fake, store_of
from singleshot.paper.exhibition import exhibit_all
from singleshot.paper.exhibits import Grid
from singleshot.paper.methods import Scale, base_recipe
from singleshot.training.recipe import Recipe


@pytest.mark.parametrize("bases", [(RESNET,), (VGG,), (RESNET, VGG)])
def test_a_figure_is_named_after_its_networks(bases: tuple[Recipe, ...], tmp_path: Path) -> None:
    made = exhibit_all([Grid(("fig2",), bases, seeds=3)], drawn_store(methods=["baseline"]), tmp_path)
    name = "-".join(["fig2", "digits", *(base.model for base in bases)])
    assert made.figures == {name: tmp_path / "figures" / f"{name}.png"}
    assert list(made.numbers) == [name]
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == [f"{name}.json", f"{name}.png"]


def test_neither_scale_takes_the_place_of_the_other(tmp_path: Path) -> None:
    scales: tuple[Scale, ...] = ("small", "paper")
    bases = [base_recipe(scale, dataset="cifar100", model="vgg16") for scale in scales]
    store = store_of(*(fake(base, "baseline", 0) for base in bases))
    for base in bases:
        made = exhibit_all([Grid(("table1", "fig1"), (base,), seeds=1)], store, tmp_path)
        assert made.missing == []
    tables = {f"table1-cifar100-vgg16{end}" for end in (".txt", ".md", ".tex", ".csv")}
    of_paper = {name.replace(".", "-paper.") for name in tables}
    assert {path.name for path in (tmp_path / "tables").iterdir()} == tables | of_paper
    figures = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert figures == {"fig1-cifar100-vgg16", "fig1-cifar100-vgg16-paper"}


def test_what_cannot_be_drawn_is_named(tmp_path: Path) -> None:
    made = exhibit_all([Grid(("fig2",), (RESNET,), seeds=1)], store_of(), tmp_path)
    assert (made.figures, made.numbers) == ({}, {})
    (reason,) = made.missing
    assert reason.startswith("fig2-digits-resnet18: fig2 has nothing to draw: these runs are missing: ")
