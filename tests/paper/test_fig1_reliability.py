"""Fig. 1 from synthetic results, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from fake_results import RESNET, SEEDS, VGG, drawn_store, without
from figure_oracle import assert_estimates, binned, ece, eces, panels, texts
from singleshot.paper.figures import draw_figure
from singleshot.paper.methods import CI
from singleshot.paper.seed_means import Runs


def test_fig1_has_the_mean_ece_over_seeds_and_the_pooled_bins_of_every_method() -> None:
    store = drawn_store()
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


def test_fig1_shows_the_ci_with_the_lowest_mean_ece() -> None:
    store = drawn_store()
    figure, numbers = draw_figure("fig1", [RESNET], SEEDS, store)
    mean = {method: np.mean(eces(RESNET, method)) for method in CI}
    assert numbers["settings"][0]["ci_oracle"] == min(mean, key=mean.__getitem__) == "ci_0.01"
    assert [ax.get_title().splitlines()[0] for ax in panels(figure)] == ["Baseline", "CI[Oracle], β = 0.01", "VWCI"]
    baseline = eces(RESNET, "baseline")
    error = np.std(baseline, ddof=1) / np.sqrt(SEEDS)
    assert panels(figure)[0].get_title().splitlines()[1] == f"ECE {np.mean(baseline):.3f} ± {error:.3f} (3 seeds)"


def test_the_oracle_states_its_number_of_candidates() -> None:
    store = drawn_store()
    without(store, RESNET, "ci_0.01", 0, 1, 2)
    without(store, RESNET, "ci_1", 1)
    figure, numbers = draw_figure("fig1", [RESNET], SEEDS, store)
    mean = {method: np.mean(eces(RESNET, method)) for method in ("ci_0.1", "ci_0.001", "ci_0.0001")}
    best = min(mean, key=mean.__getitem__)
    assert numbers["settings"][0]["ci_oracle"] == best
    assert f"CI[Oracle], β = {best[3:]} (of 4 tried)" in texts(figure)
    assert numbers["settings"][0]["methods"]["ci_1"]["ece"]["seeds"] == 2
    assert numbers["missing"] == ["resnet18 on digits, ci_1, seed 1", "resnet18 on digits, ci_0.01, seeds 0, 1, 2"]


def test_the_oracle_uses_the_seeds_that_all_betas_have() -> None:
    store = drawn_store([RESNET])
    without(store, RESNET, "ci_1", 0, 1)
    figure, numbers = draw_figure("fig1", [RESNET], SEEDS, store)
    seed_2 = {beta: ece(RESNET, beta, [2]) for beta in CI}
    best = numbers["settings"][0]["ci_oracle"]
    assert best == min(seed_2, key=seed_2.__getitem__)
    runs = Runs(RESNET, SEEDS, store)
    assert runs.best_ci() == best
    ((seed, result),) = runs.results("ci_oracle").items()
    assert {seed: result.metrics()["ece"]} == {2: runs.values("ci_oracle")[2]["ece"]}
    assert f"β = {best[3:]}\nECE {seed_2[best]:.3f} (1 of 3 seeds)" in texts(figure)


def test_no_oracle_without_a_common_seed() -> None:
    store = drawn_store([RESNET], ["baseline", "ci_1", "ci_0.1"], seeds=2)
    without(store, RESNET, "ci_1", 0)
    without(store, RESNET, "ci_0.1", 1)
    figure, numbers = draw_figure("fig1", [RESNET], 2, store)
    assert numbers["settings"][0]["ci_oracle"] is None
    assert "CI[Oracle] (of 2 tried):\nno runs yet" in texts(figure)
    assert Runs(RESNET, 2, store).values("ci_oracle") == Runs(RESNET, 2, store).values("ci") == {}
