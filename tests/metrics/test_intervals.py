"""Bootstrap intervals and Wilson intervals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings, strategies as st
from interval_coverage import simulate, simulate_classwise
from scipy.stats import binom, binomtest

import example_oracle as reference
from singleshot.metrics import Examples, bootstrap, risk_coverage, wilson_interval
from singleshot.metrics.estimates import METRICS

PROMISED = (
    "accuracy",
    "ece",
    "debiased_ece",
    "adaptive_ece",
    "smooth_ece",
    "nll",
    "brier",
    "mean_confidence",
    "aurc",
    "excess_aurc",
)


@pytest.mark.parametrize("scenario", ["calibrated", "overconfident", "constant gap"])
def test_intervals_have_their_nominal_coverage(scenario: str) -> None:
    """A small version of benchmarks/interval_coverage.py: a coverage of 95 % misses these bounds once in 10,000 runs.

    Intervals must not be too wide either: some must miss, and the width is at most twice that of ± 1.96 deviations.
    """
    trials = 100
    outcome = simulate(scenario, trials=trials, size=500, replicates=100, seed=5)
    for name in PROMISED:
        held = round(outcome.coverage[name] * trials)
        assert held >= binom.ppf(1e-4, trials, 0.93), (name, held)
    for name in ("mce", "rmsce", "overconfidence", "underconfidence"):
        assert outcome.coverage[name] >= 0.85, name
    assert abs(outcome.bias["debiased_ece"]) < abs(outcome.bias["ece"])
    assert np.mean([outcome.coverage[name] for name in PROMISED]) <= 0.985
    for name in (*PROMISED, "overconfidence"):
        assert outcome.width[name] < 4 * 1.96 * outcome.deviation[name], name


def test_classwise_intervals_have_their_nominal_coverage_and_width() -> None:
    """With 200 examples per class: with fewer, no interval is reported, and it is extended to a biased estimate."""
    for scenario in ("calibrated", "overconfident"):
        outcome = simulate_classwise(scenario, trials=60, size=800, replicates=100, classes=4, seed=1)
        assert outcome.coverage["classwise_ece"] >= 0.85, scenario
    # of the last scenario: if the true error is near 0, the interval includes 0
    assert outcome.width["classwise_ece"] < 1.5 * 2 * 1.96 * outcome.deviation["classwise_ece"]


def test_the_lower_bound_of_the_mce_is_at_least_that_of_the_ece() -> None:
    for seed, slope in enumerate((0.7, 0.9, 1.0)):
        intervals = bootstrap(reference.drawn(500, seed, slope=slope), replicates=60)
        assert intervals["mce"].low >= intervals["ece"].low
        assert intervals["mce"].low <= intervals["mce"].high


@pytest.mark.parametrize("slope", [0.7, 1.0, 1.2])
def test_intervals_contain_their_estimate(slope: float) -> None:
    """Also those of errors that noise biases upwards: the largest gap of a few examples is far above the true one."""
    for seed in range(4):
        for name, found in bootstrap(reference.drawn(150, seed, slope=slope), replicates=60).items():
            assert found.low <= found.estimate <= found.high, (name, seed)


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.35, 0.7, 0.9, 1.0]), st.booleans()), min_size=1, max_size=40))
@settings(max_examples=40, deadline=None)
@example([(0.1, True), (0.35, False), (0.7, True), (0.9, False), (0.9, True), (0.1, False), (0.1, True), (0.7, False),
          (0.7, False), (0.1, False), (0.1, False), (0.1, False), (0.35, False), (1.0, True), (1.0, True)])  # fmt: skip
def test_over_and_underconfidence_are_the_parts_of_the_error(pairs: list[tuple[float, bool]]) -> None:
    examples = reference.made([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    intervals = bootstrap(examples, replicates=5)
    over, under, ece = (intervals[name].estimate for name in ("overconfidence", "underconfidence", "ece"))
    assert over + under == pytest.approx(ece, abs=1e-12)
    assert min(over, under) >= 0
    confidence, correct = reference.plain(examples)
    assert over - under == pytest.approx(confidence.mean() - correct.mean(), abs=1e-12)
    for name, found in intervals.items():
        assert found.low <= found.high, name


def test_overconfidence_and_underconfidence_are_distinguished() -> None:
    intervals = bootstrap(reference.drawn(2000, slope=0.7), replicates=100)
    assert intervals["overconfidence"].low > 0.1
    assert intervals["underconfidence"].low == 0
    assert intervals["underconfidence"].high < 0.02


def test_excess_aurc_equals_the_risk_coverage_curve() -> None:
    for seed, (size, ties) in enumerate(((1, False), (2, True), (50, True), (400, False))):
        examples = reference.drawn(size, seed, ties=ties)
        found = bootstrap(examples, replicates=20)["excess_aurc"]
        assert found.estimate == pytest.approx(risk_coverage(examples).excess_aurc, abs=1e-12)
        assert found.estimate == pytest.approx(reference.excess_aurc(*reference.plain(examples)), abs=1e-12)


def test_means_have_the_textbook_standard_error() -> None:
    examples = reference.drawn(2000)
    intervals = bootstrap(examples, replicates=2000)
    for name, values in (("nll", examples.nll), ("brier", examples.brier), ("mean_confidence", examples.confidence)):
        error = float(values.std()) / math.sqrt(2000)
        found = intervals[name]
        assert found.standard_error == pytest.approx(error, rel=0.06)
        assert found.estimate == pytest.approx(float(values.mean()))
        assert (found.low, found.high) == pytest.approx(
            (found.estimate - 1.96 * error, found.estimate + 1.96 * error), abs=0.3 * error
        )
    low, high = wilson_interval(int(examples.correct.sum()), 2000)
    assert (intervals["accuracy"].low, intervals["accuracy"].high) == (float(low), float(high))


def test_every_metric_has_an_ordered_interval_in_its_range() -> None:
    for seed, size in enumerate((1, 2, 10, 300)):
        intervals = bootstrap(reference.drawn(size, seed), replicates=50)
        assert tuple(intervals) == METRICS
        for name, found in intervals.items():
            assert found.low <= found.high, name
            assert found.standard_error >= 0, name
            if name not in ("nll", "brier", "mean_confidence"):
                assert 0 <= found.low <= found.high <= 1 + 1e-12, name


def test_a_seed_is_reproducible_and_a_higher_level_is_wider() -> None:
    examples = reference.drawn(200, slope=0.7)
    first = bootstrap(examples, replicates=60, seed=1)
    assert bootstrap(examples, replicates=60, seed=1) == first
    assert bootstrap(examples, replicates=60, seed=2) != first
    wide = bootstrap(examples, replicates=60, seed=1, level=0.999)
    for name in METRICS:
        assert wide[name].low <= first[name].low
        assert wide[name].high >= first[name].high


def test_estimates_do_not_depend_on_the_order_of_the_examples() -> None:
    examples = reference.drawn(300, ties=True)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(0))
    fields = (examples.confidence, examples.correct, examples.nll, examples.brier)
    confidence, correct, nll, brier = (field[order] for field in fields)
    moved = bootstrap(Examples(confidence, correct, nll, brier), replicates=5)
    for name, found in bootstrap(examples, replicates=5).items():
        assert moved[name].estimate == pytest.approx(found.estimate, abs=1e-12), name


def test_all_correct_and_all_wrong() -> None:
    for correct in (True, False):
        intervals = bootstrap(reference.made([1.0] * 40, [correct] * 40), replicates=50)
        error = 0.0 if correct else 1.0
        for name in ("ece", "adaptive_ece", "mce", "rmsce", "overconfidence"):
            assert intervals[name].estimate == error
            assert intervals[name].low - 0.05 <= error <= intervals[name].high + 0.05, name
        accuracy = intervals["accuracy"]
        assert accuracy.low < accuracy.high, "40 examples cannot prove that all predictions are correct"
        assert intervals["aurc"].estimate == error
        for name in ("underconfidence", "excess_aurc"):  # if all predictions are equal, no order is better
            assert (intervals[name].estimate, intervals[name].low) == (0, 0)


def test_the_interval_excludes_zero_only_if_miscalibrated() -> None:
    assert bootstrap(reference.drawn(2000, slope=0.7), replicates=100)["ece"].low > 0.1
    assert bootstrap(reference.drawn(2000, slope=1.0), replicates=100)["ece"].low == 0


def test_an_infinite_nll_has_no_interval_and_does_not_affect_other_metrics() -> None:
    probs = torch.tensor([[1.0, 0.0], [0.6, 0.4], [0.2, 0.8]])
    intervals = bootstrap(Examples.of(probs=probs, labels=torch.tensor([1, 0, 1])), replicates=20)
    assert intervals["nll"].estimate == math.inf
    assert np.isnan([intervals["nll"].low, intervals["nll"].high, intervals["nll"].standard_error]).all()
    assert all(math.isfinite(found.high) for name, found in intervals.items() if name != "nll")


def test_invalid_options_are_named() -> None:
    invalid: list[tuple[type[Exception], dict[str, Any], str]] = [
        (ValueError, {"replicates": 1}, "replicates must be a whole number of at least 2"),
        (TypeError, {"replicates": 10.0}, "replicates must be a whole number of at least 2"),
        (ValueError, {"level": 95}, "level must lie in \\(0, 1\\)"),
        (ValueError, {"bins": 0}, "bins must be a whole number of at least 1"),
    ]
    for error, options, message in invalid:
        with pytest.raises(error, match=message):
            bootstrap(reference.drawn(5), **options)


@given(st.integers(1, 1000), st.data(), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_wilson_equals_scipy(count: int, data: st.DataObject, level: float) -> None:
    successes = data.draw(st.integers(0, count))
    low, high = wilson_interval(successes, count, level)
    expected = binomtest(successes, count).proportion_ci(level, method="wilson")
    assert low == pytest.approx(expected.low, abs=1e-12)
    assert high == pytest.approx(expected.high, abs=1e-12)
    assert low <= successes / count <= high


def test_wilson_of_all_none_and_nothing() -> None:
    low, high = wilson_interval([0, 7, 0], [7, 7, 0])
    assert low[0] == 0
    assert high[1] == 1
    assert 0 < high[0] < 1
    assert 0 < low[1] < 1
    assert np.isnan([low[2], high[2]]).all()


def test_invalid_proportions_are_named() -> None:
    invalid: list[tuple[tuple[Any, ...], str]] = [
        (([3], [2]), r"successes must lie between 0 and counts: got 3 of 2 at 0"),
        (([-1], [2]), "successes must lie between"),
        (([1, 2], [1, 2, 3]), "numbers of one shape"),
        ((["a"], [1]), "successes and counts must be numbers"),
        (([1], [2], 1.0), "level must lie in \\(0, 1\\)"),
        (([1], [2], 95), "level must lie"),
    ]
    for arguments, message in invalid:
        with pytest.raises(ValueError, match=message):
            wilson_interval(*arguments)
    with pytest.raises(TypeError, match="successes and counts must be numbers"):
        wilson_interval([object()], [1])  # type: ignore[arg-type]
