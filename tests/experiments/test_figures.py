"""Figures from hand-made results: their numbers agree with numpy's, and what is drawn agrees with the numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fake_results import fake_result
from singleshot.experiments.figures import draw_figure, save_figure
from singleshot.experiments.job import job_of
from singleshot.experiments.methods import PASSES
from singleshot.experiments.plan import CI, EXHIBITS
from singleshot.experiments.store import ResultStore
from singleshot.training.recipe import Recipe

Array = np.ndarray[Any, np.dtype[Any]]
FIGURES = ("fig1", "fig2", "fig4", "fig5")
METHODS = tuple(dict.fromkeys(method for figure in FIGURES for method in EXHIBITS[figure]))
RESNET = Recipe(dataset="digits", model="resnet18", epochs=3)
VGG = Recipe(dataset="digits", model="vgg16", epochs=3)
SEEDS = 3
EXAMPLES, CLASSES = 300, 4
# How far each method's logits are from calibrated ones, which have the factor 1: ci_0.01 is the oracle's choice.
SHARPNESS = {
    "baseline": 3.0,
    "ci_1": 0.2,
    "ci_0.1": 0.5,
    "ci_0.01": 1.0,
    "ci_0.001": 1.8,
    "ci_0.0001": 2.5,
    "vwci": 1.2,
}


def predictions(base: Recipe, method: str, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, labels and stochastic passes of a run."""
    method = "vwci" if method == "vwci_T5" else method  # five passes are the default: both are the same run
    generator = torch.Generator().manual_seed(1000 * len(base.model) + 10 * METHODS.index(method) + seed)
    normal = {"generator": generator, "dtype": torch.float64}
    true = 2 * torch.randn(EXAMPLES, CLASSES, **normal)  # type: ignore[call-overload]
    labels = torch.multinomial(true.softmax(1), 1, generator=generator).squeeze(1)
    noise = torch.randn(5, EXAMPLES, CLASSES, **normal)  # type: ignore[call-overload]
    return SHARPNESS.get(method, 1.5) * true, labels, true + noise


def store_of(
    folder: Path, bases: Sequence[Recipe] = (RESNET, VGG), methods: Sequence[str] = METHODS, seeds: int = SEEDS
) -> ResultStore:
    store = ResultStore(folder)
    for base in bases:
        for method in methods:
            for seed in range(seeds):
                job = job_of(base, method, seed)
                logits, labels, passes = predictions(base, method, seed)
                store.results[job.key] = fake_result(job, logits=logits, labels=labels, passes=passes)
    return store


@pytest.fixture(scope="module")
def complete() -> ResultStore:
    return store_of(Path("nowhere"))


@pytest.fixture
def store(complete: ResultStore) -> ResultStore:
    return ResultStore(complete.folder, dict(complete.results))


def softmax(logits: Tensor) -> Array:
    powers = np.exp(logits.numpy() - logits.numpy().max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def binned(base: Recipe, method: str, seeds: Sequence[int]) -> tuple[Array, Array, Array]:
    """Examples, correct ones and summed confidence in each of 20 bins, of these seeds together."""
    sums = np.zeros((3, 20))
    for seed in seeds:
        logits, labels, _ = predictions(base, method, seed)
        probs = softmax(logits)
        index = np.ceil(probs.max(1) * 20).astype(int) - 1
        for row, weight in enumerate((np.ones(EXAMPLES), probs.argmax(1) == labels.numpy(), probs.max(1))):
            sums[row] += np.bincount(index, weight, 20)
    return sums[0], sums[1], sums[2]


def ece(base: Recipe, method: str, seeds: Sequence[int]) -> float:
    count, correct, confidence = binned(base, method, seeds)
    return float(np.abs(correct - confidence).sum() / count.sum())


def eces(base: Recipe, method: str, seeds: int = SEEDS) -> list[float]:
    return [ece(base, method, [seed]) for seed in range(seeds)]


def assert_estimates(estimate: dict[str, Any], values: Sequence[float]) -> None:
    assert estimate["mean"] == pytest.approx(np.mean(values))
    assert estimate["standard_error"] == pytest.approx(np.std(values, ddof=1) / np.sqrt(len(values)))
    assert estimate["seeds"] == len(values)


def texts(figure: Any) -> str:
    """All that is written in a figure."""
    from matplotlib.text import Text

    return "\n".join(text.get_text() for text in figure.findobj(Text))


def panels(figure: Any) -> list[Any]:
    return [ax for ax in figure.findobj(lambda artist: hasattr(artist, "get_xlabel")) if ax.get_label() != "<colorbar>"]


def without(store: ResultStore, base: Recipe, method: str, *seeds: int) -> None:
    for seed in seeds:
        del store.results[job_of(base, method, seed).key]


def test_fig1_has_the_mean_ece_over_seeds_and_the_pooled_bins_of_every_method(store: ResultStore) -> None:
    _, numbers = draw_figure("fig1", [RESNET, VGG], SEEDS, store)
    assert [(setting["dataset"], setting["model"]) for setting in numbers["settings"]] == [
        ("digits", "resnet18"),
        ("digits", "vgg16"),
    ]
    for setting, base in zip(numbers["settings"], (RESNET, VGG), strict=True):
        assert set(setting["methods"]) == {"baseline", *CI, "vwci"}
        for method, found in setting["methods"].items():
            assert_estimates(found["ece"], eces(base, method))
            count, correct, confidence = binned(base, method, range(SEEDS))
            filled = count > 0
            assert found["pooled"]["bins"]["count"] == count.tolist()
            accuracies = np.array(found["pooled"]["bins"]["accuracy"], float)
            assert accuracies[filled] == pytest.approx((correct / count.clip(1))[filled])
            confidences = np.array(found["pooled"]["bins"]["confidence"], float)
            assert confidences[filled] == pytest.approx((confidence / count.clip(1))[filled])
            assert found["pooled"]["ece"] == pytest.approx(ece(base, method, range(SEEDS)))


def test_fig1_draws_the_ci_whose_mean_ece_is_least(store: ResultStore) -> None:
    figure, numbers = draw_figure("fig1", [RESNET], SEEDS, store)
    mean = {method: np.mean(eces(RESNET, method)) for method in CI}
    assert numbers["settings"][0]["ci_oracle"] == min(mean, key=mean.__getitem__) == "ci_0.01"
    assert [ax.get_title().splitlines()[0] for ax in panels(figure)] == ["Baseline", "CI[Oracle], β = 0.01", "VWCI"]
    baseline = eces(RESNET, "baseline")
    error = np.std(baseline, ddof=1) / np.sqrt(SEEDS)
    assert panels(figure)[0].get_title().splitlines()[1] == f"ECE {np.mean(baseline):.3f} ± {error:.3f} (3 seeds)"


def test_fig2_is_the_variance_histogram_of_the_baseline_of_all_seeds(store: ResultStore) -> None:
    figure, numbers = draw_figure("fig2", [VGG], SEEDS, store)
    sums = np.zeros((3, 20))
    for seed in range(SEEDS):
        _, labels, logits = predictions(VGG, "baseline", seed)
        passes = softmax(logits)
        mean = passes.mean(0)
        variance = 1 - np.sqrt(passes * mean).sum(-1).mean(0)
        index = np.ceil(variance * 20).astype(int) - 1
        for row, weight in enumerate((np.ones(EXAMPLES), mean.argmax(1) == labels.numpy(), mean.max(1))):
            sums[row] += np.bincount(index, weight, 20)
    count, correct, score = sums
    filled = count > 0
    found = numbers["settings"][0]
    bins = found["bins"]
    assert found["seeds"] == SEEDS
    assert bins["count"] == count.tolist()
    assert bins["coverage"] == pytest.approx(count.cumsum() / count.sum())
    assert np.array(bins["accuracy"], float)[filled] == pytest.approx(correct[filled] / count[filled])
    assert np.array(bins["score"], float)[filled] == pytest.approx(score[filled] / count[filled])
    assert [value is None for value in bins["accuracy"]] == (~filled).tolist()

    left, middle, right = panels(figure)
    assert [bar.get_height() for bar in left.patches] == pytest.approx(correct[filled] / count[filled])
    assert [bar.get_height() for bar in middle.patches] == pytest.approx(score[filled] / count[filled])
    points = np.asarray(right.collections[0].get_offsets())
    assert points == pytest.approx(np.stack([score[filled], correct[filled]], 1) / count[filled, None])
    assert "vgg16 on digits, baseline (3 seeds)" in texts(figure)


def test_fig4_has_the_ece_by_the_number_of_passes_beside_the_baseline(store: ResultStore) -> None:
    figure, numbers = draw_figure("fig4", [RESNET, VGG], SEEDS, store)
    (ax,) = panels(figure)
    for setting, base in zip(numbers["settings"], (RESNET, VGG), strict=True):
        assert_estimates(setting["baseline"], eces(base, "baseline"))
        assert [point["passes"] for point in setting["vwci"]] == list(PASSES)
        for point in setting["vwci"]:
            assert_estimates(point, eces(base, f"vwci_T{point['passes']}"))
        (curve,) = (one for one in ax.containers if one.get_label() == f"{base.model}, VWCI (3 seeds)")
        assert curve[0].get_ydata() == pytest.approx([point["mean"] for point in setting["vwci"]])
        (line,) = (one for one in ax.get_lines() if str(one.get_label()).startswith(f"{base.model}, baseline"))
        assert line.get_ydata() == pytest.approx([setting["baseline"]["mean"]] * 2)
        assert (line.get_color(), line.get_linestyle()) == (curve[0].get_color(), "--")
        assert "(3 seeds)" in line.get_label()
        assert ax.get_ylim()[1] > max(setting["baseline"]["mean"], *curve[0].get_ydata())


def test_fig4_has_a_panel_for_each_data_set(tmp_path: Path) -> None:
    bases = [RESNET, Recipe(dataset="cifar100", model="resnet18", epochs=3), VGG]
    figure, numbers = draw_figure("fig4", bases, 1, store_of(tmp_path, bases, seeds=1))
    assert [len(ax.containers) for ax in panels(figure)] == [2, 1]
    assert len(numbers["settings"]) == 3


def test_fig5_has_the_coverage_of_the_pooled_predictions(store: ResultStore) -> None:
    figure, numbers = draw_figure("fig5", [RESNET], SEEDS, store)
    (setting,) = numbers["settings"]
    thresholds = np.arange(20) / 20
    for method, found in setting["methods"].items():
        count, correct, _ = binned(RESNET, method, range(SEEDS))
        accuracy = correct / count.clip(1)
        expected = [count[(thresholds >= at) & (accuracy > at)].sum() / count.sum() for at in thresholds]
        assert found["thresholds"] == pytest.approx(thresholds)
        assert found["coverage"] == pytest.approx(expected)
        assert found["seeds"] == SEEDS
    left, right = panels(figure)
    assert [line.get_label() for line in left.get_lines()] == [
        "Baseline (3 seeds)",
        "CI[Oracle], β = 0.01 (3 seeds)",
        "VWCI (3 seeds)",
    ]
    assert [line.get_label() for line in right.get_lines()] == [
        *(f"CI, β = {beta} (3 seeds)" for beta in ("1", "0.1", "0.01", "0.001", "0.0001")),
        "VWCI (3 seeds)",
    ]
    assert right.get_lines()[0].get_ydata() == pytest.approx(setting["methods"]["ci_1"]["coverage"])
    looks = [[line.get_color(), line.get_marker(), line.get_linestyle()] for line in (*left.lines, *right.lines)]
    assert looks[1] == looks[5]  # the oracle is β = 0.01
    assert looks[2] == looks[-1]
    assert len({tuple(look) for look in looks}) == len(CI) + 2


@pytest.mark.parametrize("exhibit", FIGURES)
def test_the_numbers_are_ready_for_json_and_name_no_missing_run(exhibit: str, store: ResultStore) -> None:
    _, numbers = draw_figure(exhibit, [RESNET, VGG], SEEDS, store)
    assert json.loads(json.dumps(numbers, allow_nan=False)) == numbers
    assert numbers["exhibit"] == exhibit
    assert numbers["missing"] == []


@pytest.mark.parametrize("exhibit", FIGURES)
def test_drawing_leaves_no_figure_open_and_no_result_changed(exhibit: str, store: ResultStore) -> None:
    import matplotlib.pyplot as plt

    before, states = plt.get_fignums(), [json.dumps(result.to_dict()) for result in store.results.values()]
    draw_figure(exhibit, [RESNET], SEEDS, store)
    assert plt.get_fignums() == before
    assert [json.dumps(result.to_dict()) for result in store.results.values()] == states


@pytest.mark.parametrize("exhibit", FIGURES)
def test_fewer_seeds_than_asked_for_are_drawn_and_said(exhibit: str, tmp_path: Path) -> None:
    figure, numbers = draw_figure(exhibit, [RESNET], 5, store_of(tmp_path, [RESNET], seeds=2))
    assert "2 of 5 seeds" in texts(figure)
    assert numbers["missing"][0] == "resnet18 on digits, baseline, seeds 2, 3, 4"
    assert len(numbers["missing"]) == len(EXHIBITS[exhibit])


@pytest.mark.parametrize("exhibit", FIGURES)
def test_one_seed_has_no_standard_error(exhibit: str, tmp_path: Path) -> None:
    figure, numbers = draw_figure(exhibit, [RESNET], 1, store_of(tmp_path, [RESNET], seeds=1))
    assert "(1 seed)" in texts(figure)
    (setting,) = numbers["settings"]
    estimates = [setting["baseline"], *setting["vwci"]] if exhibit == "fig4" else []
    estimates += [method["ece"] for method in setting["methods"].values()] if exhibit == "fig1" else []
    assert all(estimate["standard_error"] is None for estimate in estimates)


def test_the_oracle_says_among_how_many_it_chose(store: ResultStore) -> None:
    without(store, RESNET, "ci_0.01", 0, 1, 2)
    without(store, RESNET, "ci_1", 1)
    figure, numbers = draw_figure("fig1", [RESNET], SEEDS, store)
    mean = {method: np.mean(eces(RESNET, method)) for method in ("ci_0.1", "ci_0.001", "ci_0.0001")}
    best = min(mean, key=mean.__getitem__)
    assert numbers["settings"][0]["ci_oracle"] == best
    assert f"CI[Oracle], β = {best[3:]} (of 4 tried)" in texts(figure)
    assert numbers["settings"][0]["methods"]["ci_1"]["ece"]["seeds"] == 2
    assert numbers["missing"] == ["resnet18 on digits, ci_1, seed 1", "resnet18 on digits, ci_0.01, seeds 0, 1, 2"]


@pytest.mark.parametrize("exhibit", ["fig1", "fig5"])
def test_a_method_without_runs_leaves_its_place_empty(exhibit: str, tmp_path: Path) -> None:
    figure, numbers = draw_figure(exhibit, [RESNET], 1, store_of(tmp_path, [RESNET], ["baseline"], seeds=1))
    assert list(numbers["settings"][0]["methods"]) == ["baseline"]
    assert numbers["settings"][0]["ci_oracle"] is None
    assert "no run yet" in texts(figure)


@pytest.mark.parametrize("exhibit", FIGURES)
def test_a_network_without_runs_is_left_out(exhibit: str, tmp_path: Path) -> None:
    figure, numbers = draw_figure(exhibit, [RESNET, VGG], 1, store_of(tmp_path, [VGG], seeds=1))
    assert [setting["model"] for setting in numbers["settings"]] == ["vgg16"]
    assert "resnet18" not in texts(figure)
    assert all(line.startswith("resnet18") for line in numbers["missing"])


def test_fig4_says_where_its_points_differ_in_seeds_and_does_without_a_baseline(store: ResultStore) -> None:
    without(store, RESNET, "baseline", 0, 1, 2)
    without(store, RESNET, "vwci_T10", 2)
    without(store, RESNET, "vwci_T2", 0, 1, 2)
    figure, numbers = draw_figure("fig4", [RESNET], SEEDS, store)
    assert numbers["settings"][0]["baseline"] is None
    assert [(one["passes"], one["seeds"]) for one in numbers["settings"][0]["vwci"]] == [(3, 3), (5, 3), (10, 2)]
    assert panels(figure)[0].get_title() == "digits: mean ± standard error (2 to 3 seeds)"


@pytest.mark.parametrize("exhibit", FIGURES)
def test_an_empty_store_is_an_error_that_names_the_missing_runs(exhibit: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{exhibit} has nothing to draw: these runs are missing") as caught:
        draw_figure(exhibit, [RESNET, VGG], 2, ResultStore(tmp_path))
    for model in ("resnet18", "vgg16"):
        for method in EXHIBITS[exhibit]:
            assert f"{model} on digits, {method}, seeds 0, 1" in str(caught.value)


def test_fig4_needs_more_than_the_baseline(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="missing: resnet18 on digits, vwci_T2, seed 0; resnet18 on digits, vwci_T3"):
        draw_figure("fig4", [RESNET], 1, store_of(tmp_path, [RESNET], ["baseline"], seeds=1))


def test_fig2_needs_a_network_with_noise(tmp_path: Path) -> None:
    store, job = ResultStore(tmp_path), job_of(RESNET, "baseline", 0)
    logits, labels, _ = predictions(RESNET, "baseline", 0)
    store.results[job.key] = fake_result(job, logits=logits, labels=labels)
    with pytest.raises(ValueError, match="fig2 has nothing to draw: no network in it has any noise"):
        draw_figure("fig2", [RESNET], 1, store)


@pytest.mark.parametrize("exhibit", ["fig3", "table1", ""])
def test_an_unknown_figure_is_refused(exhibit: str, store: ResultStore) -> None:
    with pytest.raises(ValueError, match="choose one of fig1, fig2, fig4, fig5"):
        draw_figure(exhibit, [RESNET], SEEDS, store)


def test_a_folder_of_images_is_shown_by_its_name_alone(tmp_path: Path) -> None:
    base = Recipe(dataset="somewhere/private/flowers", epochs=3)
    figure, numbers = draw_figure("fig2", [base], 2, store_of(tmp_path, [base], ["baseline"], seeds=1))
    assert numbers["settings"][0]["dataset"] == "flowers"
    assert "private" not in texts(figure) + json.dumps(numbers)


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.PDF", b"%PDF"), ("a.svg", b"<?xml")])
def test_the_suffix_decides_the_format(name: str, start: bytes, tmp_path: Path) -> None:
    store = store_of(tmp_path / "results", [RESNET], seeds=1)
    path = tmp_path / "new" / "folder" / name
    numbers = save_figure("fig4", [RESNET], 1, store, path)
    assert path.read_bytes().startswith(start)
    assert numbers == draw_figure("fig4", [RESNET], 1, store)[1]
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("exhibit", FIGURES)
def test_every_figure_can_be_saved(exhibit: str, store: ResultStore, tmp_path: Path) -> None:
    save_figure(exhibit, [RESNET, VGG], SEEDS, store, str(tmp_path / "figure.png"))
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.parametrize("name", ["figure", "figure.txt"])
def test_another_suffix_is_refused(name: str, store: ResultStore, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"saved as \.png, \.pdf, \.svg, got"):
        save_figure("fig2", [RESNET], SEEDS, store, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_a_failure_leaves_the_old_file_as_it_was(
    store: ResultStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
