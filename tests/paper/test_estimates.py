"""Values of methods by seed, and their differences, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fake_results import BASE, SEEDS, fake, full_store, of_runs, store_of
from singleshot.paper.methods import CI
from singleshot.paper.published import METRICS
from singleshot.paper.seed_means import SECONDS, Estimate, Runs


def test_differences_are_paired_over_common_seeds() -> None:
    runs = [fake(BASE, "vwci", seed) for seed in (0, 1, 3)] + [fake(BASE, "baseline", seed) for seed in (0, 1, 2, 3)]
    estimates = Runs(BASE, 4, store_of(*runs)).differences("vwci", "baseline")
    for metric in METRICS:
        differences = (of_runs("vwci", metric, 4) - of_runs("baseline", metric, 4))[[0, 1, 3]]
        mean, error = differences.mean(), differences.std(ddof=1) / np.sqrt(3)
        assert estimates[metric].mean == pytest.approx(mean), metric
        assert estimates[metric].standard_error == pytest.approx(error), metric


def test_differences_without_common_seeds_or_with_one() -> None:
    store = store_of(fake(BASE, "vwci", 0), fake(BASE, "baseline", 1))
    assert Runs(BASE, 3, store).differences("vwci", "baseline") == {}
    one = Runs(BASE, 1, store).differences("vwci", "vwci")["ece"]
    assert (one.mean, one.standard_error) == (0, None)


def test_differences_of_temperature_scaling_and_selected_smoothing() -> None:
    store = full_store("table2")
    assert Runs(BASE, SEEDS, store).differences("vwci", "ts_case2")["nll"].seeds == SEEDS
    assert Runs(BASE, SEEDS, store).differences("vwci", "smoothing")["nll"].seeds == SEEDS
    assert Runs(BASE, SEEDS, store_of()).values("smoothing") == {}
    with pytest.raises(ValueError, match="method"):
        Runs(BASE, SEEDS, store).differences("vwci", "other")


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12))
def test_estimates_agree_with_numpy(values: list[float]) -> None:
    estimate = Estimate.of(values)
    assert estimate.mean == pytest.approx(np.mean(values), abs=1e-9)
    assert estimate.standard_error == pytest.approx(np.std(values, ddof=1) / np.sqrt(len(values)), abs=1e-9)


def test_infinite_values_have_no_standard_error() -> None:
    assert Estimate.of([float("inf"), 1.0]) == Estimate(float("inf"), None, 2)


def test_ci_is_the_mean_over_beta_and_the_oracle_the_best_beta_seed_by_seed() -> None:
    store = full_store("table1")
    ci, oracle = (Runs(BASE, SEEDS, store).values(name) for name in ("ci", "ci_oracle"))
    differences = Runs(BASE, SEEDS, store).differences("vwci", "ci_oracle")
    for metric in METRICS:
        five = np.stack([of_runs(beta, metric) for beta in CI])
        assert [ci[seed][metric] for seed in range(SEEDS)] == pytest.approx(five.mean(0)), metric
        best = five.mean(1).argmax() if metric == "accuracy" else five.mean(1).argmin()
        assert [oracle[seed][metric] for seed in range(SEEDS)] == pytest.approx(five[best]), metric
        assert differences[metric].mean == pytest.approx((of_runs("vwci", metric) - five[best]).mean()), metric


def test_values_of_beta_are_compared_on_common_seeds() -> None:
    runs = [fake(BASE, beta, seed) for beta in CI for seed in range(SEEDS) if (beta, seed) != (CI[-1], 1)]
    for method in ("ci", "ci_oracle"):
        assert list(Runs(BASE, SEEDS, store_of(*runs)).values(method)) == [0, 2]
        assert Runs(BASE, SEEDS, store_of()).values(method) == {}


def test_time_is_a_ratio_of_processor_seconds_paired_by_seed() -> None:
    runs = [fake(BASE, "baseline", seed, cpu_seconds=seconds) for seed, seconds in enumerate((10.0, 20.0, None, 40.0))]
    runs += [fake(BASE, "vwci", seed, cpu_seconds=seconds) for seed, seconds in ((0, 40.0), (1, 120.0), (2, 9.0))]
    ratio = Runs(BASE, 4, store_of(*runs)).time_ratio("vwci")
    assert ratio is not None
    assert (ratio.mean, ratio.seeds) == (5.0, 2)
    assert ratio.standard_error == pytest.approx(1.0)


def test_time_includes_the_run_that_provides_the_weights() -> None:
    baseline, star = fake(BASE, "baseline", 0, cpu_seconds=10.0), fake(BASE, "vwci_star", 0, cpu_seconds=30.0)
    ratio = Runs(BASE, 1, store_of(baseline, star)).time_ratio("vwci_star")
    assert ratio is not None
    assert ratio.mean == 4.0
    assert SECONDS not in Runs(BASE, 1, store_of(star)).values("vwci_star")[0]
    unknown = fake(BASE, "baseline", 0, cpu_seconds=None)
    assert Runs(BASE, 1, store_of(unknown, star)).time_ratio("vwci_star") is None


def test_ci_has_the_mean_time_over_beta_and_the_oracle_none() -> None:
    betas = [fake(BASE, beta, 0, cpu_seconds=10.0 * (number + 1)) for number, beta in enumerate(CI)]
    store = store_of(fake(BASE, "baseline", 0, cpu_seconds=10.0), *betas)
    ratio = Runs(BASE, 1, store).time_ratio("ci")
    assert ratio is not None
    assert ratio.mean == 3.0
    assert Runs(BASE, 1, store).time_ratio("ci_oracle") is None
    unknown = fake(BASE, CI[0], 0, cpu_seconds=None)
    assert Runs(BASE, 1, store_of(*store.results.values(), unknown)).time_ratio("ci") is None


def test_processor_time_is_ignored_on_another_device() -> None:
    runs = [fake(BASE, method, 0, device="cuda") for method in ("baseline", "vwci")]
    assert Runs(BASE, 1, store_of(*runs)).time_ratio("vwci") is None
