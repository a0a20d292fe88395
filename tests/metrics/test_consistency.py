from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

import example_oracle as reference
from singleshot.metrics import consistency_test
from singleshot.metrics.significance import STATISTICS


@pytest.mark.parametrize("statistic", STATISTICS)
def test_the_size_is_right_where_the_confidences_are(statistic: str) -> None:
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


@pytest.mark.parametrize("statistic", STATISTICS)
def test_wrong_confidences_are_found_out(statistic: str) -> None:
    found = consistency_test(reference.drawn(1000, slope=0.85), statistic=statistic, replicates=199)
    assert found.p_value == 1 / 200
    assert found.observed > found.expected


def test_the_p_value_is_that_of_all_possible_answers() -> None:
    """Few enough examples to go through every set of right answers with its probability."""
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


def test_certain_predictions() -> None:
    assert consistency_test(reference.made([1.0] * 10, [True] * 10)).p_value == 1
    assert consistency_test(reference.made([1.0] * 10, [True] * 9 + [False]), replicates=99).p_value == 0.01
    assert consistency_test(reference.made([0.5], [True])).p_value == 1


def test_overconfidence_that_underconfidence_hides_is_seen_by_the_ece_alone() -> None:
    confidence = np.repeat([0.6, 0.8], 500)
    correct = np.concatenate([np.arange(500) < 350, np.arange(500) < 350])  # 0.7 in both
    examples = reference.made(confidence, correct)
    assert consistency_test(examples, replicates=199).p_value < 0.01
    assert consistency_test(examples, statistic="total", replicates=199).p_value > 0.5


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="statistic='mce' is unknown; choose one of ece, total"):
        consistency_test(reference.drawn(3), statistic="mce")
    with pytest.raises(ValueError, match="replicates must be"):
        consistency_test(reference.drawn(3), replicates=0)
