from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import foldnorm, norm

import example_oracle as reference
from singleshot.metrics import debiased_ece
from singleshot.metrics.binning import (
    BinSums,
    debiased_error,
    debiased_overconfident_part,
    debiased_square_error,
    gaps_of,
    mean_absolute_normal,
    negated,
)
from singleshot.metrics.resampling import binned, sort_examples, whole

MeanOf = Callable[[float, float], float]


def literal_debiased(confidence: reference.Array, correct: reference.Bools, bins: int, mean_of: MeanOf) -> float:
    """The formula of the docstring, bin by bin; ``mean_of`` a normal is that of its absolute value, or of a part."""
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


@pytest.mark.parametrize("size", [1, 30, 500])
@pytest.mark.parametrize("slope", [0.5, 0.8, 1.0])
def test_equals_the_literal_formula(size: int, slope: float) -> None:
    examples = reference.drawn(size, seed=size, slope=slope)
    expected = max(literal_debiased(*reference.plain(examples), 20, folded), 0)
    assert debiased_ece(examples) == pytest.approx(expected, abs=1e-10)
    table = sort_examples(examples, 20)
    gaps = gaps_of(binned(whole(table).cells, table.width_bins))
    for mean_of, sides in ((positive_part, gaps), (negative_part, negated(gaps))):
        part = literal_debiased(*reference.plain(examples), 20, mean_of)
        assert float(debiased_overconfident_part(sides)) == pytest.approx(part, abs=1e-10)


def test_mean_absolute_normal_at_the_edges() -> None:
    found = mean_absolute_normal(np.array([0.0, -3.0, 1e200, 0.0, 1.0]), np.array([1.0, 0.0, 1e-300, 0.0, 4.0]))
    np.testing.assert_allclose(found, [np.sqrt(2 / np.pi), 3, 1e200, 0, folded(1.0, 4.0)], rtol=1e-12)


@pytest.mark.parametrize(("slope", "truth"), [(1.0, 0.0), (0.9, 0.0775)])
def test_has_less_bias_than_the_plain_error_and_is_never_negative(slope: float, truth: float) -> None:
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


@pytest.mark.parametrize("correct", [True, False])
def test_one_example_and_all_alike(correct: bool) -> None:
    for confidence in (0.5, 1.0):
        for size in (1, 50):
            value = debiased_ece(reference.made([confidence] * size, [correct] * size))
            assert 0 <= value <= abs(confidence - correct) + 1e-12
    assert debiased_ece(reference.made([1.0] * 50, [False] * 50)) == pytest.approx(1, abs=0.02)
