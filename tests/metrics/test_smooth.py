from __future__ import annotations

import numpy as np
import pytest

import example_oracle as reference
from singleshot.metrics import smooth_ece
from singleshot.metrics.binning import GRID, smoothed


@pytest.mark.parametrize("bandwidth", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("seed", [0, 1])
def test_equals_mirror_images_up_to_the_grid(bandwidth: float, seed: int) -> None:
    examples = reference.drawn(60, seed)
    expected = reference.smooth_ece(*reference.plain(examples), bandwidth)
    assert smooth_ece(examples, bandwidth) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("seed", range(3))
def test_the_bandwidth_equals_the_error(seed: int) -> None:
    examples = reference.drawn(500, seed, slope=0.8)
    error = smooth_ece(examples)
    assert smooth_ece(examples, error) == pytest.approx(error, rel=1e-9)
    assert smooth_ece(examples, error / 2) >= error >= smooth_ece(examples, min(1.0, error * 2))


def test_a_confidence_that_is_always_wrong_by_the_same_has_that_error() -> None:
    """All residuals have one sign: the kernel keeps their sum, wherever it is reflected."""
    for confidence in (0.5, 0.9, 1.0):
        examples = reference.made([confidence] * 40, [False] * 40)
        assert smooth_ece(examples) == pytest.approx(confidence, abs=1e-6)


def test_smoothing_keeps_the_sum_and_a_constant() -> None:
    values = np.random.default_rng(0).random(GRID)
    assert smoothed(values, 0.05).sum() == pytest.approx(values.sum())
    np.testing.assert_allclose(smoothed(np.ones(GRID), 0.3), 1)


def test_perfect_predictions_have_no_error() -> None:
    assert smooth_ece(reference.made([1.0] * 5, [True] * 5)) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, 2.0, float("nan")])
def test_bandwidths_outside_the_unit_interval_are_refused(bandwidth: float) -> None:
    with pytest.raises(ValueError, match=r"bandwidth must lie in \(0, 1\]"):
        smooth_ece(reference.drawn(5), bandwidth)
