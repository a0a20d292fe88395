"""The debiased, smooth and adaptive ECE."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import foldnorm, norm

import example_oracle as reference
from singleshot.metrics import adaptive_ece, debiased_ece, smooth_ece
from singleshot.metrics.binning import (
    GRID,
    BinSums,
    debiased_error,
    debiased_overconfident_part,
    debiased_square_error,
    equal_mass_index,
    gaps_of,
    mean_absolute_normal,
    negated,
    smoothed,
)
from singleshot.metrics.resampling import SortedExamples, binned, whole

MeanOf = Callable[[float, float], float]


def literal_debiased(confidence: reference.Array, correct: reference.Bools, bins: int, mean_of: MeanOf) -> float:
    """The formula of `debiased_error`, bin by bin; ``mean_of(m, v)`` is E|N(m, v)| or the mean of one side of it."""
    groups = reference.width_groups(confidence, bins)
    rows = []
    for group in sorted(set(groups)):
        members = np.array(groups) == group
        n, c, a = members.sum(), confidence[members].mean(), correct[members].mean()
        guess = (n * a + c) / (n + 1)
        rows.append((n / len(confidence), c - a, guess * (1 - guess) / n))
    mean = sum(p * d for p, d, _ in rows)
    spread = max(0.0, sum(p * (d - mean) ** 2 for p, d, _ in rows) - sum(p * (1 - p) * v for p, _, v in rows))
    result = 0.0
    for p, d, v in rows:
        shrink = spread / (spread + v) if spread else 0.0
        m, left = mean + shrink * (d - mean), shrink * v
        result += p * (mean_of(d, 0.0) - mean_of(m, left + v) + mean_of(m, left))
    return result


def folded(mean: float, variance: float) -> float:
    deviation = np.sqrt(variance)
    return float(foldnorm.mean(abs(mean) / deviation, scale=deviation)) if variance > 0 else abs(mean)


def positive_part(mean: float, variance: float) -> float:
    """E max(N(mean, variance), 0) = m Φ(m/s) + s φ(m/s)."""
    deviation = np.sqrt(variance)
    return (
        float(mean * norm.cdf(mean / deviation) + deviation * norm.pdf(mean / deviation)) if variance else max(mean, 0)
    )


def negative_part(mean: float, variance: float) -> float:
    return positive_part(-mean, variance)


@pytest.mark.parametrize(("size", "slope"), [(1, 0.5), (30, 0.8), (30, 1.0), (500, 0.8), (500, 1.0)])
def test_debiased_ece_equals_the_literal_formula(size: int, slope: float) -> None:
    examples = reference.drawn(size, seed=size, slope=slope)
    expected = max(literal_debiased(*reference.plain(examples), 20, folded), 0)
    assert debiased_ece(examples) == pytest.approx(expected, abs=1e-10)
    table = SortedExamples(examples, 20)
    gaps = gaps_of(binned(whole(table).cells, table.width_bins))
    for mean_of, sides in ((positive_part, gaps), (negative_part, negated(gaps))):
        part = literal_debiased(*reference.plain(examples), 20, mean_of)
        assert float(debiased_overconfident_part(sides)) == pytest.approx(part, abs=1e-10)


def test_mean_absolute_normal_at_the_edges() -> None:
    found = mean_absolute_normal(np.array([0.0, -3.0, 1e200, 0.0, 1.0]), np.array([1.0, 0.0, 1e-300, 0.0, 4.0]))
    np.testing.assert_allclose(found, [np.sqrt(2 / np.pi), 3, 1e200, 0, folded(1.0, 4.0)], rtol=1e-12)


@pytest.mark.parametrize(("slope", "truth"), [(1.0, 0.0), (0.9, 0.0775)])
def test_debiased_ece_has_less_bias_than_the_plain_error_and_is_never_negative(slope: float, truth: float) -> None:
    plain, debiased = [], []
    for seed in range(200):
        examples = reference.drawn(500, seed, slope=slope)
        confidence, correct = reference.plain(examples)
        index = np.ceil(confidence * 20).astype(int)
        plain.append(np.abs(np.bincount(index, weights=confidence - correct)).sum() / len(confidence))
        debiased.append(debiased_ece(examples))
    assert min(debiased) >= 0
    assert abs(np.mean(debiased) - truth) < 0.5 * abs(np.mean(plain) - truth)


def test_the_square_error_has_no_bias_in_the_mean() -> None:
    generator = np.random.default_rng(0)
    count, right = np.array([200.0, 100.0]), np.array([0.7, 0.4])
    gap = np.array([0.05, -0.1])
    correct = generator.binomial(count.astype(int), right, size=(20000, 2)).astype(float)
    sums = BinSums(
        np.broadcast_to(count, correct.shape), correct, np.broadcast_to(count * (right + gap), correct.shape)
    )
    truth = float((count / 300 * gap**2).sum())
    found = debiased_square_error(gaps_of(sums))
    assert found.mean() == pytest.approx(truth, abs=5e-5)
    assert debiased_error(gaps_of(sums)).shape == (20000,)


def test_debiased_ece_of_one_example_and_of_equal_ones() -> None:
    for correct, confidence, size in product((True, False), (0.5, 1.0), (1, 50)):
        value = debiased_ece(reference.made([confidence] * size, [correct] * size))
        assert 0 <= value <= abs(confidence - correct) + 1e-12
    assert debiased_ece(reference.made([1.0] * 50, [False] * 50)) == pytest.approx(1, abs=0.02)


def test_smooth_ece_equals_mirror_images_up_to_the_grid() -> None:
    for bandwidth, seed in product((0.02, 0.1, 0.5), (0, 1)):
        examples = reference.drawn(60, seed)
        expected = reference.smooth_ece(*reference.plain(examples), bandwidth)
        assert smooth_ece(examples, bandwidth) == pytest.approx(expected, rel=0.01)


def test_the_bandwidth_equals_the_error() -> None:
    for seed in range(3):
        examples = reference.drawn(500, seed, slope=0.8)
        error = smooth_ece(examples)
        assert smooth_ece(examples, error) == pytest.approx(error, rel=1e-9)
        assert smooth_ece(examples, error / 2) >= error >= smooth_ece(examples, min(1.0, error * 2))


def test_a_constant_gap_is_the_smooth_ece() -> None:
    """All residuals have the same sign, and smoothing preserves their sum."""
    for confidence in (0.5, 0.9, 1.0):
        examples = reference.made([confidence] * 40, [False] * 40)
        assert smooth_ece(examples) == pytest.approx(confidence, abs=1e-6)


def test_smoothing_keeps_the_sum_and_a_constant() -> None:
    values = np.random.default_rng(0).random(GRID)
    assert smoothed(values, 0.05).sum() == pytest.approx(values.sum())
    np.testing.assert_allclose(smoothed(np.ones(GRID), 0.3), 1)


def test_perfect_predictions_have_no_smooth_error() -> None:
    assert smooth_ece(reference.made([1.0] * 5, [True] * 5)) == pytest.approx(0, abs=1e-9)


def test_bandwidths_outside_the_unit_interval_are_refused() -> None:
    for bandwidth in (0.0, -1.0, 2.0, float("nan")):
        with pytest.raises(ValueError, match=r"bandwidth must lie in \(0, 1\]"):
            smooth_ece(reference.drawn(5), bandwidth)


def test_adaptive_ece_equals_the_oracle() -> None:
    for bins, size, ties in product((1, 2, 15, 20), (1, 7, 100), (False, True)):
        examples = reference.drawn(size, seed=size, ties=ties)
        confidence, correct = reference.plain(examples)
        groups = reference.mass_groups(confidence, bins)
        assert equal_mass_index(confidence, bins).tolist() == groups, (bins, size, ties)
        assert adaptive_ece(examples, bins) == pytest.approx(reference.ece(confidence, correct, groups), abs=1e-12)


def test_distinct_confidences_fill_the_bins_equally() -> None:
    index = equal_mass_index(np.random.default_rng(0).random(400), 20)
    assert np.bincount(index).tolist() == [20] * 20


@given(st.lists(st.sampled_from([0.1, 0.5, 0.5000001, 0.9, 1.0]), min_size=1, max_size=50), st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_equal_confidences_share_a_bin_and_order_does_not_matter(values: list[float], bins: int) -> None:
    confidence = np.array(values)
    index = equal_mass_index(confidence, bins)
    for value in set(values):
        assert len(set(index[confidence == value].tolist())) == 1
    assert (np.diff(index[np.argsort(confidence, kind="stable")]) >= 0).all()
    assert (equal_mass_index(confidence[::-1].copy(), bins)[::-1] == index).all()
    assert 0 <= index.min() <= index.max() < bins


def test_bins_of_the_adaptive_ece_are_checked() -> None:
    with pytest.raises(ValueError, match="bins must be a whole number of at least 1"):
        adaptive_ece(reference.drawn(5), bins=0)
