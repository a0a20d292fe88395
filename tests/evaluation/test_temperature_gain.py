"""The expected gain of a temperature: samples of a stream, cross-fitting and held-out examples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import oracle
from integration.overconfident import calibrated
from singleshot.evaluation.temperature_gain import ScoreSample, cross_fitted_gain, held_out_gain
from singleshot.metrics.examples import ScoredBatch


def overconfident(seed: int, rows: int, factor: float = 3.0) -> tuple[torch.Tensor, torch.Tensor]:
    logits, labels = calibrated(seed, rows)
    return torch.tensor(logits * factor), torch.tensor(labels)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.sampled_from([6, 40, 200, 10_000]))
@settings(max_examples=60, deadline=None)
def test_a_sample_has_every_nth_example(sizes: list[int], max_scores: int) -> None:
    sample = ScoreSample(max_scores)
    total = sum(sizes)
    scores, labels = torch.arange(total * 3.0).reshape(total, 3), torch.arange(total) % 3
    first = 0
    for size in sizes:
        rows = slice(first, first + size)
        sample.add(ScoredBatch.of(logits=scores[rows], labels=labels[rows]))
        first += size
    found, found_labels = sample.examples()
    steps = [1 << power for power in range(10)]
    kept = next(step for step in steps if torch.equal(found, scores[::step]))
    assert torch.equal(found_labels, labels[::kept])
    assert found.numel() <= max_scores
    assert kept == 1 or scores[:: kept // 2].numel() > max_scores  # no fewer than necessary


def test_probabilities_become_their_logarithms() -> None:
    sample = ScoreSample()
    sample.add(ScoredBatch.of(probs=[[0.25, 0.75], [1.0, 0.0]], labels=[0, 0]))
    logits, _ = sample.examples()
    assert logits.isfinite().all()
    torch.testing.assert_close(logits.softmax(1), torch.tensor([[0.25, 0.75], [1.0, 0.0]], dtype=logits.dtype))


def test_a_temperature_fixes_logits_that_are_too_large() -> None:
    logits, labels = overconfident(0, 3000)
    gain = cross_fitted_gain(logits, labels)
    assert gain is not None
    assert gain.temperature == pytest.approx(3, rel=0.1)
    assert gain.fixed > 0.8
    assert gain.badge in {"Calibrated", "Nearly calibrated"}
    before = oracle.calibration(oracle.softmax(logits.numpy()), labels.numpy(), 20)
    assert (gain.ece[0], gain.nll[0]) == pytest.approx((before["ece"], before["nll"]), abs=1e-9)
    # fitted on all examples and judged on them, the NLL is lower: cross-fitting is not optimistic
    own = oracle.calibration(oracle.softmax(logits.numpy() / gain.temperature), labels.numpy(), 20)
    assert own["nll"] <= gain.nll[1] < before["nll"]


def test_cross_fitting_is_honest_about_few_examples() -> None:
    """The mean gain is not larger than that on new examples."""
    told, kept = [], []
    fresh, fresh_labels = overconfident(99, 4000, 1.0)
    for seed in range(30):
        logits, labels = overconfident(seed, 80, 1.0)
        gain = cross_fitted_gain(logits, labels)
        assert gain is not None
        told.append(gain.nll[1] - gain.nll[0])
        new = oracle.calibration(oracle.softmax(fresh.numpy() / gain.temperature), fresh_labels.numpy(), 20)
        kept.append(new["nll"] - oracle.calibration(oracle.softmax(fresh.numpy()), fresh_labels.numpy(), 20)["nll"])
    assert np.mean(told) >= np.mean(kept) - 3 * np.std(told) / np.sqrt(len(told))
    assert np.mean(told) > 0  # these logits are calibrated: a temperature from 40 examples makes them worse


def test_held_out_examples_decide_the_temperature() -> None:
    logits, labels = overconfident(0, 1000)
    gain = held_out_gain(overconfident(1, 1000, 6.0), logits, labels, what="1,000 validation images")
    assert gain is not None
    assert gain.temperature == pytest.approx(6, rel=0.15)
    assert gain.how == "fitted on 1,000 validation images and judged on these examples"
    expected = oracle.calibration(oracle.softmax(logits.numpy() / gain.temperature), labels.numpy(), 20)
    assert gain.nll[1] == pytest.approx(expected["nll"], abs=1e-9)


def test_without_a_temperature_there_is_no_gain() -> None:
    logits, labels = overconfident(0, 59)
    assert cross_fitted_gain(logits, labels) is None  # too few
    certain = torch.eye(4)[torch.arange(100) % 4] * 9
    assert cross_fitted_gain(certain, torch.arange(100) % 4) is None  # all right: the colder the better
    assert held_out_gain(overconfident(1, 10), *overconfident(0, 100), what="10 images") is None
    masked, labels = overconfident(0, 100)
    masked[3, int(labels[3] + 1) % 4] = -torch.inf
    assert cross_fitted_gain(masked, labels) is None


def test_one_score_per_example_is_no_sample() -> None:
    sample = ScoreSample()
    sample.add(ScoredBatch.of_top_class(confidence=[1.0] * 100, predicted=[0] * 100, labels=[0] * 100))
    assert sample.is_empty
    assert cross_fitted_gain(*sample.examples()) is None
