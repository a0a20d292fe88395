"""Curves, details and costs of the evidence, from synthetic results with known values."""

from __future__ import annotations

import json
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import convergence
import numpy as np
import pytest
from PIL import Image

from fake_results import fake, store_of
from singleshot.grid.job import Result
from singleshot.grid.store import ResultStore
from singleshot.paper.evidence import CurvePoint, details, save_curves, total_cost, training_curve
from singleshot.paper.methods import EPSILONS, job_of
from singleshot.paper.published import CI_ORACLE
from singleshot.paper.regimes import EPOCHS, REGIMES
from singleshot.paper.seed_means import Runs

ROOT = Path(__file__).resolve().parents[2]
REGIME = "hard-resnet18"
BASE = REGIMES[REGIME].recipe


def tracked(method: str, seed: int, *, unseen: str = "unused", **changes: Any) -> Result:
    """A run with two points of a curve, whose values grow with the seed."""
    curve = [
        {"epoch": epoch, "train": {"accuracy": accuracy}, unseen: {"ece": ece + seed / 10, "nll": 2.0 + seed}}
        for epoch, accuracy, ece in ((6, 0.25, 0.1), (12, 0.75, 0.3))
    ]
    return replace(fake(BASE, method, seed), curve=curve, **changes)


def runs_of(*results: Result) -> Runs:
    return Runs(BASE, 3, store_of(*results))


@pytest.mark.parametrize("unseen", ["unused", "test"])
def test_a_curve_is_the_mean_over_seeds_at_common_epochs(unseen: str) -> None:
    short = tracked("vwci", 1, unseen=unseen)
    assert short.curve is not None
    runs = runs_of(tracked("vwci", 0, unseen=unseen), replace(short, curve=short.curve[:1]))
    (point,) = training_curve(runs, "vwci")
    assert vars(point) == pytest.approx(vars(CurvePoint(6, 0.25, 0.15, 2.5, 2)))
    assert training_curve(runs, "baseline") == []


def test_the_figure_needs_a_baseline_and_draws_a_panel_per_regime(tmp_path: Path) -> None:
    path = tmp_path / "curves.png"
    with pytest.raises(ValueError, match="no curves to draw: hard-resnet18, hard-vgg16 have no finished baseline"):
        save_curves([REGIME, "hard-vgg16"], 3, ResultStore(tmp_path), path)
    store = store_of(*(tracked(method, seed) for method in ("baseline", "vwci") for seed in (0, 1)))
    save_curves([REGIME, "hard-vgg16"], 3, store, path)
    assert path.stat().st_size > 10_000


def test_the_place_of_a_missing_panel_is_empty(tmp_path: Path) -> None:
    path, regimes = tmp_path / "curves.png", [REGIME, "hard-vgg16", "ten-classes"]
    runs = [
        replace(tracked("baseline", 0), job=job_of(REGIMES[regime].recipe, "baseline", seed=0)) for regime in regimes
    ]
    save_curves(regimes, 3, store_of(*runs), path)
    picture = np.asarray(Image.open(path).convert("L"))
    height, width = picture.shape
    assert picture[: height // 3, width // 2 :].min() < 255
    assert picture[height // 2 : 4 * height // 5, width // 2 :].min() == 255


def test_details_average_shifts_and_leave_out_what_a_run_lacks() -> None:
    shift = {
        "blur": [{"accuracy": 1.0, "ece": 0.1, "nll": 0.0}, {"accuracy": 1.0, "ece": 0.3, "nll": 0.0}],
        "noise": [{"accuracy": 1.0, "ece": 0.2, "nll": 0.0}, {"accuracy": 1.0, "ece": 0.6, "nll": 0.0}],
    }
    ranking = {"alpha": 0.6, "confidence": 0.7, "mean_alpha": 0.1}
    perfect = {"alpha": None, "confidence": None, "mean_alpha": 0.1}  # no errors to rank
    content = {"aurc": 0.5, "errors": {"test": ranking, "train": perfect}, "shift": shift}
    found = details(
        runs_of(tracked("vwci", 0, details=content), tracked("vwci", 1, details={**content, "aurc": 0.7})), "vwci"
    )
    assert {name: one.mean for name, one in found.items()} == pytest.approx(
        {
            "aurc": 0.6,
            "auroc_confidence_test": 0.7,
            "auroc_alpha_test": 0.6,
            "shift_ece": 0.3,
            "largest_shift_ece": 0.45,
        }
    )
    assert found["aurc"].seeds == 2
    assert details(runs_of(), "vwci") == {}


def cost(runs: Runs, method: str) -> tuple[float, ...]:
    found = total_cost(runs, method)
    assert found is not None
    return astuple(found)


def test_costs_include_searches_and_the_runs_that_a_method_starts_from() -> None:
    def spent(method: str, seconds: float) -> Result:
        return fake(BASE, method, 0, cpu_seconds=seconds)

    runs = runs_of(spent("baseline", 10), spent("held_out_baseline", 9), spent("vwci_star", 3), spent("auto_vwci", 13))
    assert cost(runs, "baseline") == pytest.approx((1, 1.0, 0.0, 0.0))
    assert cost(runs, "ts_case2") == pytest.approx((1, 0.9, 0.1, 0.1))
    assert cost(runs, "vwci_star") == pytest.approx((2, 1.3, 0.0, 0.0))
    assert cost(runs, "auto_vwci") == pytest.approx((1, 1.3, 0.1, 0.0))  # the held-out images are given back
    assert total_cost(runs, "vwci") is None
    assert total_cost(runs, "smoothing") is None
    candidates = [spent(f"held_out_smoothing_{epsilon:g}", 9) for epsilon in EPSILONS]
    runs = runs_of(spent("baseline", 10), *candidates, *(spent(f"smoothing_{epsilon:g}", 10) for epsilon in EPSILONS))
    assert cost(runs, "smoothing") == pytest.approx((7, 0.9 * 6 + 1, 0.1, 0.0))
    every_beta = [spent(f"ci_{beta:g}", 11) for beta in (1.0, 0.1, 0.01, 0.001, 0.0001)]
    assert cost(runs_of(spent("baseline", 10), *every_beta), CI_ORACLE) == pytest.approx((5, 5.5, 0.0, 0.0))
    on_accelerator = replace(spent("vwci", 5), device="cuda")
    assert total_cost(runs_of(spent("baseline", 10), on_accelerator), "vwci") is None


def test_a_faster_star_has_five_times_the_learning_rate() -> None:
    star, fast = (job_of(BASE, method, 0) for method in ("vwci_star", "vwci_star_fast"))
    assert fast.recipe.learning_rate == 5 * star.recipe.learning_rate == 5 * BASE.learning_rate
    assert fast.start == star.start


def test_the_rule_takes_the_shortest_training_that_memorises_or_that_more_epochs_do_not_improve() -> None:
    def tried(*accuracies: float) -> list[dict[str, Any]]:
        epochs = EPOCHS[: len(accuracies)]
        return [
            {"epochs": one, "curve": [{"train": {"accuracy": accuracy}}]}
            for one, accuracy in zip(epochs, accuracies, strict=True)
        ]

    assert convergence.selected(tried(0.8)) is None
    assert convergence.selected(tried(0.8, 0.99)) == 60
    assert convergence.selected(tried(0.922, 0.926)) == 30
    assert convergence.selected(tried(0.8, 0.9, 0.899)) == 60
    assert convergence.selected(tried(0.1, 0.2, 0.3, 0.4, 0.5)) == 300


def test_a_baseline_among_the_results_is_not_trained_again() -> None:
    stored = tracked("baseline", 0)
    found = convergence.baseline(BASE, store_of(stored), Path("no-data"))
    assert found == {"curve": stored.curve, "environment": stored.environment}


def test_measured_regimes_have_the_epochs_that_the_stored_search_selects() -> None:
    stored = json.loads((ROOT / "results" / "convergence.json").read_text(encoding="utf-8"))
    selected = {regime: convergence.selected(tried) for regime, tried in stored.items()}
    store = ResultStore.open(ROOT / "results" / "runs")
    measured = [name for name, regime in REGIMES.items() if job_of(regime.recipe, "baseline", 0) in store]
    assert set(measured) - selected.keys() <= {"more-images"}  # its search would take hours; the page says so
    for regime in selected.keys() & set(measured):
        assert selected[regime] == REGIMES[regime].recipe.epochs, regime
