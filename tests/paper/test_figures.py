"""Figures from hand-made results: what all have in common, and how they are saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fake_results import FIGURES, RESNET, SEEDS, VGG, drawn_store
from figure_oracle import texts
from singleshot.grid.store import ResultStore
from singleshot.paper.exhibits import EXHIBITS
from singleshot.paper.figures import draw_figure, save_figure
from singleshot.training.recipe import Recipe


@pytest.mark.parametrize("exhibit", FIGURES)
def test_the_numbers_are_ready_for_json_and_name_no_missing_run(exhibit: str) -> None:
    store = drawn_store()
    _, numbers = draw_figure(exhibit, [RESNET, VGG], SEEDS, store)
    assert json.loads(json.dumps(numbers, allow_nan=False)) == numbers
    assert numbers["exhibit"] == exhibit
    assert numbers["missing"] == []


@pytest.mark.parametrize("exhibit", FIGURES)
def test_no_label_is_longer_than_its_axis(exhibit: str) -> None:
    """Longer ones run into the titles above, or off the picture."""
    figure, _ = draw_figure(exhibit, [RESNET, VGG], SEEDS, drawn_store())
    figure.draw_without_rendering()
    for ax in figure.axes:
        place = ax.get_window_extent()
        assert ax.yaxis.label.get_window_extent().height <= 1.02 * place.height
        assert ax.xaxis.label.get_window_extent().width <= 1.02 * place.width


@pytest.mark.parametrize("exhibit", FIGURES)
def test_drawing_leaves_no_figure_open_and_no_result_changed(exhibit: str) -> None:
    store = drawn_store()
    import matplotlib.pyplot as plt

    before, states = plt.get_fignums(), [json.dumps(result.to_dict()) for result in store.results.values()]
    draw_figure(exhibit, [RESNET], SEEDS, store)
    assert plt.get_fignums() == before
    assert [json.dumps(result.to_dict()) for result in store.results.values()] == states


@pytest.mark.parametrize("exhibit", FIGURES)
def test_fewer_seeds_than_asked_for_are_drawn_and_said(exhibit: str) -> None:
    figure, numbers = draw_figure(exhibit, [RESNET], 5, drawn_store([RESNET], seeds=2))
    assert "2 of 5 seeds" in texts(figure)
    assert numbers["missing"][0] == "resnet18 on digits, baseline, seeds 2, 3, 4"
    assert len(numbers["missing"]) == len(EXHIBITS[exhibit])


@pytest.mark.parametrize("exhibit", FIGURES)
def test_one_seed_has_no_standard_error(exhibit: str) -> None:
    figure, numbers = draw_figure(exhibit, [RESNET], 1, drawn_store([RESNET], seeds=1))
    assert "(1 seed)" in texts(figure)
    (setting,) = numbers["settings"]
    estimates = [setting["baseline"], *setting["vwci"]] if exhibit == "fig4" else []
    estimates += [method["ece"] for method in setting["methods"].values()] if exhibit == "fig1" else []
    assert all(estimate["standard_error"] is None for estimate in estimates)


@pytest.mark.parametrize("exhibit", ["fig1", "fig5"])
def test_a_method_without_runs_leaves_its_place_empty(exhibit: str) -> None:
    figure, numbers = draw_figure(exhibit, [RESNET], 1, drawn_store([RESNET], ["baseline"], seeds=1))
    assert list(numbers["settings"][0]["methods"]) == ["baseline"]
    assert numbers["settings"][0]["ci_oracle"] is None
    assert "not there yet" in texts(figure)


@pytest.mark.parametrize("exhibit", FIGURES)
def test_a_network_without_runs_is_left_out(exhibit: str) -> None:
    figure, numbers = draw_figure(exhibit, [RESNET, VGG], 1, drawn_store([VGG], seeds=1))
    assert [setting["model"] for setting in numbers["settings"]] == ["vgg16"]
    assert "resnet18" not in texts(figure)
    assert all(line.startswith("resnet18") for line in numbers["missing"])


@pytest.mark.parametrize("exhibit", FIGURES)
def test_an_empty_store_is_an_error_that_names_the_missing_runs(exhibit: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{exhibit} has nothing to draw: these runs are missing") as caught:
        draw_figure(exhibit, [RESNET, VGG], 2, ResultStore(tmp_path))
    for model in ("resnet18", "vgg16"):
        for method in EXHIBITS[exhibit]:
            assert f"{model} on digits, {method}, seeds 0, 1" in str(caught.value)


@pytest.mark.parametrize("exhibit", ["fig3", "table1", ""])
def test_an_unknown_figure_is_refused(exhibit: str) -> None:
    store = drawn_store()
    with pytest.raises(ValueError, match="choose one of fig1, fig2, fig4, fig5"):
        draw_figure(exhibit, [RESNET], SEEDS, store)


def test_a_folder_of_images_is_shown_by_its_name_alone() -> None:
    base = Recipe(dataset="somewhere/private/flowers", epochs=3)
    figure, numbers = draw_figure("fig2", [base], 2, drawn_store([base], ["baseline"], seeds=1))
    assert numbers["settings"][0]["dataset"] == "flowers"
    assert "private" not in texts(figure) + json.dumps(numbers)


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.PDF", b"%PDF"), ("a.svg", b"<?xml")])
def test_the_suffix_decides_the_format(name: str, start: bytes, tmp_path: Path) -> None:
    store = drawn_store([RESNET], seeds=1)
    path = tmp_path / "new" / "folder" / name
    numbers = save_figure("fig4", [RESNET], 1, store, path)
    assert path.read_bytes().startswith(start)
    assert numbers == draw_figure("fig4", [RESNET], 1, store)[1]
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("exhibit", FIGURES)
def test_every_figure_can_be_saved(exhibit: str, tmp_path: Path) -> None:
    store = drawn_store()
    save_figure(exhibit, [RESNET, VGG], SEEDS, store, str(tmp_path / "figure.png"))
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.parametrize("name", ["figure", "figure.txt"])
def test_another_suffix_is_refused(name: str, tmp_path: Path) -> None:
    store = drawn_store()
    with pytest.raises(ValueError, match=r"saved as \.png, \.pdf, \.svg, got"):
        save_figure("fig2", [RESNET], SEEDS, store, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_a_failure_leaves_the_old_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = drawn_store()
    from matplotlib.figure import Figure

    def break_off(_: Figure, path: Path, **options: Any) -> None:
        path.write_bytes(b"half")
        raise OSError("no space left")

    path = tmp_path / "figure.png"
    path.write_bytes(b"old")
    monkeypatch.setattr(Figure, "savefig", break_off)
    with pytest.raises(OSError, match="no space"):
        save_figure("fig2", [RESNET], SEEDS, store, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
