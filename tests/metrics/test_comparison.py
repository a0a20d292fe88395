from __future__ import annotations

import numpy as np
import pytest
import torch

import example_oracle as reference
from singleshot.metrics import Examples, bootstrap, paired_bootstrap
from singleshot.metrics.estimates import METRICS


def two_classifiers(size: int, seed: int, *, sharper: float) -> tuple[Examples, Examples]:
    """A calibrated classifier, and the same one with its logits multiplied."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(size, 5, generator=generator, dtype=torch.float64) * 2
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    return Examples.of(logits=logits, labels=labels), Examples.of(logits=sharper * logits, labels=labels)


@pytest.mark.parametrize("metric", ["ece", "adaptive_ece", "smooth_ece", "rmsce", "nll", "brier"])
def test_a_calibrated_classifier_beats_an_overconfident_one(metric: str) -> None:
    a, b = two_classifiers(2000, 0, sharper=2.0)
    found = paired_bootstrap(a, b, metric, replicates=200)
    assert found.difference < 0
    assert found.high < 0
    assert found.p_value == 1 / 201
    assert found.a_is_better == 1
    assert found.a == bootstrap(a, replicates=2)[metric].estimate
    swapped = paired_bootstrap(b, a, metric, replicates=200)
    assert swapped.difference == pytest.approx(-found.difference)
    assert swapped.a_is_better == 0


@pytest.mark.parametrize("metric", METRICS)
def test_a_classifier_is_no_better_than_itself(metric: str) -> None:
    a, _ = two_classifiers(300, 0, sharper=1.0)
    found = paired_bootstrap(a, a, metric, replicates=20)
    assert (found.difference, found.low, found.high, found.p_value, found.a_is_better) == (0, 0, 0, 1, 0)


def test_equal_accuracies_cancel_though_each_is_uncertain() -> None:
    """Multiplied logits predict the same classes: paired resamples see no difference at all."""
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


def test_the_p_value_is_small_as_often_as_it_says() -> None:
    """Two classifiers that are alike: answers and confidences of the same distribution, drawn apart."""
    small = 0
    for seed in range(100):
        a, b = reference.drawn(300, 2 * seed, slope=0.8), reference.drawn(300, 2 * seed + 1, slope=0.8)
        small += paired_bootstrap(a, b, "ece", replicates=60, seed=seed).p_value <= 0.1
    assert small <= 10 + 3.5 * np.sqrt(100 * 0.1 * 0.9)


def test_other_examples_and_unknown_metrics_are_refused() -> None:
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
