"""Paired comparisons and the consistency test."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from scipy.stats import binom

import example_oracle as reference
from singleshot.metrics import Examples, bootstrap, consistency_test, paired_bootstrap
from singleshot.metrics.estimates import METRICS
from singleshot.metrics.significance import STATISTICS


def two_classifiers(size: int, seed: int, *, sharper: float) -> tuple[Examples, Examples]:
    """A calibrated classifier, and the same one with scaled logits."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(size, 5, generator=generator, dtype=torch.float64) * 2
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    return Examples.of(logits=logits, labels=labels), Examples.of(logits=sharper * logits, labels=labels)


def test_a_calibrated_classifier_beats_an_overconfident_one() -> None:
    a, b = two_classifiers(2000, 0, sharper=2.0)
    plain = bootstrap(a, replicates=2)
    for metric in ("ece", "adaptive_ece", "smooth_ece", "rmsce", "nll", "brier"):
        found = paired_bootstrap(a, b, metric, replicates=200)
        assert found.difference < 0, metric
        assert found.high < 0, metric
        assert found.p_value == 1 / 201, metric
        assert found.a_is_better == 1, metric
        assert found.a == plain[metric].estimate
        assert str(found).startswith(f"{metric}: A {found.a:.4g}, B {found.b:.4g}, A − B {found.difference:.4g} [")
        swapped = paired_bootstrap(b, a, metric, replicates=200)
        assert swapped.difference == pytest.approx(-found.difference), metric
        assert swapped.a_is_better == 0, metric


def test_a_classifier_is_no_better_than_itself() -> None:
    a, _ = two_classifiers(300, 0, sharper=1.0)
    for metric in METRICS:
        found = paired_bootstrap(a, a, metric, replicates=20)
        assert (found.difference, found.low, found.high, found.p_value, found.a_is_better) == (0, 0, 0, 1, 0), metric


def test_equal_accuracies_cancel_though_each_is_uncertain() -> None:
    """Scaled logits predict the same classes, so the differences of paired resamples are 0."""
    found = paired_bootstrap(*two_classifiers(300, 0, sharper=3.0), "accuracy", replicates=50)
    assert (found.low, found.high) == (0, 0)


def test_higher_accuracy_is_better() -> None:
    generator = np.random.default_rng(0)
    right = generator.random(500) < 0.8
    a, b = (reference.made(np.full(500, 0.8), answers) for answers in (right, right & (generator.random(500) < 0.8)))
    found = paired_bootstrap(a, b, "accuracy", replicates=100)
    assert found.difference > 0
    assert found.a_is_better == 1


def test_the_standard_error_is_that_of_paired_differences() -> None:
    a, b = two_classifiers(2000, 1, sharper=1.3)
    found = paired_bootstrap(a, b, "brier", replicates=1000)
    differences = (a.brier - b.brier).numpy()
    width = 2 * 1.96 * differences.std() / np.sqrt(2000)
    assert found.difference == pytest.approx(differences.mean())
    assert found.high - found.low == pytest.approx(width, rel=0.1)


def test_false_positives_do_not_exceed_their_nominal_rate() -> None:
    """Two independent classifiers with the same distribution of confidence and correctness."""
    small = 0
    for seed in range(100):
        a, b = reference.drawn(300, 2 * seed, slope=0.8), reference.drawn(300, 2 * seed + 1, slope=0.8)
        small += paired_bootstrap(a, b, "ece", replicates=60, seed=seed).p_value <= 0.1
    assert small <= 10 + 3.5 * np.sqrt(100 * 0.1 * 0.9)


def test_invalid_comparisons_are_named() -> None:
    a, _ = two_classifiers(20, 0, sharper=1.0)
    other, _ = two_classifiers(20, 1, sharper=1.0)
    with pytest.raises(ValueError, match="their labels differ"):
        paired_bootstrap(a, other)
    with pytest.raises(ValueError, match="got 20 and 5 of them"):
        paired_bootstrap(a, reference.drawn(5))
    with pytest.raises(ValueError, match="metric='f1' is unknown; choose one of accuracy, ece"):
        paired_bootstrap(a, a, "f1")
    certain = Examples.of(probs=torch.tensor([[1.0, 0.0]]), labels=torch.tensor([1]))
    with pytest.raises(ValueError, match="infinite because a label"):
        paired_bootstrap(certain, certain, "nll", replicates=2)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_the_test_has_its_nominal_size(statistic: str) -> None:
    trials, level = 600, 0.1
    p_values = np.array(
        [
            consistency_test(reference.drawn(100, seed), statistic=statistic, replicates=99, seed=seed).p_value
            for seed in range(trials)
        ]
    )
    low, high = binom.ppf([1e-4, 1 - 1e-4], trials, level)
    assert low <= (p_values <= level).sum() <= high
    assert 0.44 < p_values.mean() < 0.56


def test_wrong_confidences_are_detected() -> None:
    for statistic in STATISTICS:
        found = consistency_test(reference.drawn(1000, slope=0.85), statistic=statistic, replicates=199)
        assert found.p_value == 1 / 200
        assert found.observed > found.expected
        assert str(found).endswith(f"{found.expected:.4g} if calibrated, p = 0.005")


def test_the_p_value_equals_the_exact_enumeration() -> None:
    """Few enough examples to enumerate every set of correct predictions with its probability."""
    confidence, correct = np.array([0.55, 0.58, 0.7, 0.9, 0.92, 0.97]), [True, False, False, True, True, False]
    examples = reference.made(confidence, correct)
    groups = reference.width_groups(confidence, 20)
    observed = reference.ece(confidence, np.array(correct), groups)
    exact, mean = 0.0, 0.0
    for answers in product([False, True], repeat=6):
        chance = float(np.prod(np.where(answers, confidence, 1 - confidence)))
        error = reference.ece(confidence, np.array(answers), groups)
        exact += chance * (error >= observed - 1e-9)
        mean += chance * error
    found = consistency_test(examples, replicates=20000)
    assert found.observed == pytest.approx(observed)
    assert found.p_value == pytest.approx(exact, abs=0.01)
    assert found.expected == pytest.approx(mean, abs=0.01)


def test_consistency_of_predictions_with_confidence_1() -> None:
    assert consistency_test(reference.made([1.0] * 10, [True] * 10)).p_value == 1
    assert consistency_test(reference.made([1.0] * 10, [True] * 9 + [False]), replicates=99).p_value == 0.01
    assert consistency_test(reference.made([0.5], [True])).p_value == 1


def test_only_the_ece_detects_gaps_that_cancel() -> None:
    confidence = np.repeat([0.6, 0.8], 500)
    correct = np.concatenate([np.arange(500) < 350, np.arange(500) < 350])  # 0.7 in both
    examples = reference.made(confidence, correct)
    assert consistency_test(examples, replicates=199).p_value < 0.01
    assert consistency_test(examples, statistic="total", replicates=199).p_value > 0.5


def test_invalid_tests_are_named() -> None:
    with pytest.raises(ValueError, match="statistic='mce' is unknown; choose one of ece, total"):
        consistency_test(reference.drawn(3), statistic="mce")
    with pytest.raises(ValueError, match="replicates must be"):
        consistency_test(reference.drawn(3), replicates=0)
