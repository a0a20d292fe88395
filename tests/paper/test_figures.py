"""Figures from synthetic results: common properties, and saving."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fake_results import FIGURES, RESNET, SEEDS, VGG, drawn_store
from figure_oracle import texts
from singleshot.grid.store import ResultStore
from singleshot.paper.experiments import EXPERIMENTS
from singleshot.paper.figures import draw_figure, plot_ece_against_passes, save_figure
from singleshot.training.recipe import Recipe


@pytest.mark.parametrize("experiment", FIGURES)
def test_figures_are_saved_with_json_numbers_and_labels_that_fit(experiment: str, tmp_path: Path) -> None:
    import matplotlib.pyplot as plt

    store = drawn_store()
    before, states = plt.get_fignums(), [json.dumps(result.to_dict()) for result in store.results.values()]
    figure, numbers = draw_figure(experiment, [RESNET, VGG], SEEDS, store)
    assert json.loads(json.dumps(numbers, allow_nan=False)) == numbers
    assert (numbers["experiment"], numbers["missing"]) == (experiment, [])
    save_figure(experiment, [RESNET, VGG], SEEDS, store, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    figure.draw_without_rendering()
    for ax in figure.axes:
        place = ax.get_window_extent()
        assert ax.yaxis.label.get_window_extent().height <= 1.02 * place.height
        assert ax.xaxis.label.get_window_extent().width <= 1.02 * place.width
    assert plt.get_fignums() == before  # no figure is left open and no result is changed
    assert [json.dumps(result.to_dict()) for result in store.results.values()] == states


@pytest.mark.parametrize("experiment", FIGURES)
def test_missing_seeds_are_reported(experiment: str) -> None:
    figure, numbers = draw_figure(experiment, [RESNET], 5, drawn_store([RESNET], seeds=2))
    assert "2 of 5 seeds" in texts(figure)
    assert numbers["missing"][0] == "resnet18 on digits, baseline, seeds 2, 3, 4"
    assert len(numbers["missing"]) == len(EXPERIMENTS[experiment])


@pytest.mark.parametrize("experiment", FIGURES)
def test_one_seed_has_no_standard_error(experiment: str) -> None:
    figure, numbers = draw_figure(experiment, [RESNET], 1, drawn_store([RESNET], seeds=1))
    assert "(1 seed)" in texts(figure)
    (setting,) = numbers["settings"]
    estimates = [setting["baseline"], *setting["vwci"]] if experiment == "fig4" else []
    estimates += [method["ece"] for method in setting["methods"].values()] if experiment == "fig1" else []
    assert all(estimate["standard_error"] is None for estimate in estimates)


@pytest.mark.parametrize("experiment", ["fig1", "fig5"])
def test_a_method_without_runs_has_an_empty_panel(experiment: str) -> None:
    figure, numbers = draw_figure(experiment, [RESNET], 1, drawn_store([RESNET], ["baseline"], seeds=1))
    assert list(numbers["settings"][0]["methods"]) == ["baseline"]
    assert numbers["settings"][0]["ci_oracle"] is None
    assert "no runs yet" in texts(figure)


@pytest.mark.parametrize("experiment", FIGURES)
def test_a_network_without_runs_is_left_out(experiment: str) -> None:
    figure, numbers = draw_figure(experiment, [RESNET, VGG], 1, drawn_store([VGG], seeds=1))
    assert [setting["model"] for setting in numbers["settings"]] == ["vgg16"]
    assert "resnet18" not in texts(figure)
    assert all(line.startswith("resnet18") for line in numbers["missing"])


@pytest.mark.parametrize("experiment", FIGURES)
def test_an_empty_store_is_an_error_that_names_the_missing_runs(experiment: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{experiment} has nothing to draw: these runs are missing") as caught:
        draw_figure(experiment, [RESNET, VGG], 2, ResultStore(tmp_path))
    for model in ("resnet18", "vgg16"):
        for method in EXPERIMENTS[experiment]:
            assert f"{model} on digits, {method}, seeds 0, 1" in str(caught.value)


def test_other_experiments_are_refused() -> None:
    for experiment in ("fig3", "table1", ""):
        with pytest.raises(ValueError, match="choose one of fig1, fig2, fig4, fig5"):
            draw_figure(experiment, [RESNET], SEEDS, drawn_store())


def test_the_path_of_a_folder_is_not_shown() -> None:
    base = Recipe(dataset="somewhere/private/flowers", epochs=3)
    figure, numbers = draw_figure("fig2", [base], 2, drawn_store([base], ["baseline"], seeds=1))
    assert numbers["settings"][0]["dataset"] == "flowers"
    assert "private" not in texts(figure) + json.dumps(numbers)


def test_a_failure_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


PASSES = {"VWCI": {5: [0.1, 0.2, 0.4], 2: [0.3, 0.3, 0.3]}, "CE": {1: [0.4]}}


def test_the_curve_over_passes_has_mean_and_standard_error_over_seeds() -> None:
    deviations = np.array([0.1, 0.2, 0.4]) - 0.7 / 3
    error = np.sqrt((deviations**2).sum() / 2 / 3)
    ax = plot_ece_against_passes(PASSES)
    curves: dict[str, Any] = {str(container.get_label()): container for container in ax.containers}
    assert set(curves) == {"VWCI (3 seeds)", "CE (1 seed)"}
    line, _, (bars,) = curves["VWCI (3 seeds)"].lines
    assert line.get_xydata().ravel().tolist() == pytest.approx([2, 0.3, 5, 0.7 / 3])
    lengths = [ends[1, 1] - ends[0, 1] for ends in bars.get_segments()]
    assert lengths == pytest.approx([0, 2 * error], abs=1e-12)
    assert list(ax.get_xticks()) == [1, 2, 5]
    assert ax.get_ylim()[0] == 0
    ax.clear()
    plot_ece_against_passes({"VWCI": {2: [0.1], 5: [0.1, 0.2]}}, ax=ax)
    assert ax.containers[0].get_label() == "VWCI (1 to 2 seeds)"


def test_invalid_curves_over_passes_are_refused() -> None:
    invalid: list[Any] = [{}, {2: []}, {2: [float("nan")]}]
    for eces in invalid:
        with pytest.raises(ValueError, match=r"methods\['VWCI'\] must hold finite ECEs, one per seed"):
            plot_ece_against_passes({"VWCI": eces})
    with pytest.raises(ValueError, match="at least one"):
        plot_ece_against_passes({})
