from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.stats import binomtest

import example_oracle as reference
from singleshot.metrics import risk_coverage, threshold_for_accuracy
from singleshot.metrics.selective import STARTS, THRESHOLDS, clopper_pearson_lower

PAIRS = st.lists(st.tuples(st.sampled_from([0.1, 0.5, 0.7, 0.9, 1.0]), st.booleans()), min_size=1, max_size=40)


@given(PAIRS)
@settings(max_examples=80, deadline=None)
def test_the_curve_equals_accepting_at_every_threshold(pairs: list[tuple[float, bool]]) -> None:
    examples = reference.made([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    confidence, correct = reference.plain(examples)
    curve = risk_coverage(examples)
    assert curve.threshold.tolist() == sorted(set(confidence.tolist()), reverse=True)
    for threshold, coverage, risk in zip(curve.threshold, curve.coverage, curve.risk, strict=True):
        accepted = confidence >= threshold
        assert coverage == pytest.approx(accepted.mean())
        assert risk == pytest.approx(1 - correct[accepted].mean())
    assert curve.aurc == pytest.approx(reference.aurc(confidence, correct), abs=1e-12)


def test_the_optimal_order_has_no_excess_aurc() -> None:
    for right in (0, 1, 5, 10):
        examples = reference.made(np.linspace(1, 0.1, 10), [True] * right + [False] * (10 - right))
        assert risk_coverage(examples).excess_aurc == pytest.approx(0, abs=1e-12)
    worst = reference.made(np.linspace(0.1, 1, 10), [True] * 5 + [False] * 5)
    assert risk_coverage(worst).excess_aurc > 0.3


def test_the_lower_bound_equals_scipy() -> None:
    counts = np.array([1, 10, 10, 10, 1000])
    successes = np.array([0, 0, 7, 10, 990])
    expected = [
        binomtest(int(k), int(n), alternative="greater").proportion_ci(0.99).low
        for k, n in zip(successes, counts, strict=True)
    ]
    np.testing.assert_allclose(clopper_pearson_lower(successes, counts, 0.01), expected, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_the_threshold_equals_a_brute_force_search(dtype: torch.dtype) -> None:
    generator = np.random.default_rng(0)
    confidence = torch.from_numpy(0.1 + 0.9 * generator.beta(3, 1, 5000)).to(dtype)
    examples = reference.made(confidence, generator.random(5000) < confidence.double().numpy(), dtype)
    found = threshold_for_accuracy(examples, 0.9)
    certified = []
    for start in STARTS:
        for threshold in (t for t in THRESHOLDS if t <= start):
            accepted = examples.confidence >= threshold
            right, size = int(examples.correct[accepted].sum()), int(accepted.sum())
            level = 1 - 0.05 / len(STARTS)
            if not size or binomtest(right, size, alternative="greater").proportion_ci(level).low < 0.9:
                break
            certified.append((threshold, size, right / size))
    threshold, size, accuracy = min(certified)
    assert (found.threshold, found.accepted) == (threshold, size)
    assert found.accuracy == pytest.approx(accuracy)
    assert found.coverage == size / 5000
    assert 0.9 <= found.lower_bound <= found.accuracy
    assert f"{threshold:g}" in found.message


def test_the_guarantee_holds_where_every_threshold_is_just_too_low() -> None:
    """The accuracy is 0.899 at every confidence, so every threshold for 0.9 is wrong and must be rare."""
    generator = np.random.default_rng(0)
    given_one = 0
    for _ in range(300):
        examples = reference.made(generator.random(400), generator.random(400) < 0.899)
        given_one += threshold_for_accuracy(examples, 0.9, confidence=0.9).threshold is not None
    assert given_one <= 300 * 0.1 + 3 * np.sqrt(300 * 0.1 * 0.9)


def test_the_message_explains_why_there_is_no_threshold() -> None:
    for correct in ([False] * 1000, [True, False] * 500, [True] * 3 + [False] * 997):
        found = threshold_for_accuracy(reference.made([0.9] * 1000, correct), 0.99)
        assert found.threshold is None
        assert (found.coverage, found.accepted) == (0, 0)
        assert np.isnan([found.accuracy, found.lower_bound]).all()
        assert "no threshold is 95 % certain to reach an accuracy of 99 %" in found.message
        assert "takes 505 accepted examples" in found.message
        assert str(found) == found.message
    found = threshold_for_accuracy(reference.made([0.9] * 50, [False] * 50), 0.5)
    assert "no correct prediction has a score of 0.4 or more" in found.message


def test_the_quoted_bound_is_below_the_wanted_accuracy() -> None:
    quoted = 0
    for wanted in (0.89, 0.9, 0.92, 0.94, 0.97):
        for seed in range(20):
            found = threshold_for_accuracy(reference.drawn(300, seed), wanted)
            if found.threshold is None and "guarantees only" in found.message:
                quoted += 1
                assert float(found.message.split("guarantees only ")[1].split(" %")[0]) < wanted * 100
    assert quoted > 0


def test_all_correct_and_one_example() -> None:
    assert threshold_for_accuracy(reference.made([1.0] * 2000, [True] * 2000), 0.99).threshold == 0
    assert threshold_for_accuracy(reference.made([1.0], [True]), 0.5).threshold is None


def test_accuracy_and_confidence_must_lie_between_0_and_1() -> None:
    for accuracy, confidence, name in ((1.0, 0.95, "accuracy"), (0.9, 0.0, "confidence")):
        with pytest.raises(ValueError, match=rf"{name} must lie in \(0, 1\)"):
            threshold_for_accuracy(reference.drawn(5), accuracy, confidence=confidence)
    with pytest.raises(TypeError, match="accuracy must be a number"):
        threshold_for_accuracy(reference.drawn(5), "0.9")  # type: ignore[arg-type]
