"""Resamples of examples and of groups."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import example_oracle as reference
import singleshot as ss
from singleshot.metrics import Examples, adaptive_ece, bootstrap, debiased_ece
from singleshot.metrics.estimates import Estimator
from singleshot.metrics.resampling import SortedExamples, draw_counts, resample, resample_groups
from singleshot.metrics.significance import compare_resampled


@pytest.mark.parametrize(("size", "ties"), [(1, False), (2, True), (60, False), (60, True)])
def test_metrics_of_a_resample_equal_those_of_the_repeated_examples(size: int, ties: bool) -> None:
    examples = reference.drawn(size, seed=size, ties=ties)
    table = SortedExamples(examples, 20)
    estimator = Estimator(examples, 20)
    mass_of = dict(
        zip(*(reference.plain(examples)[0], reference.mass_groups(examples.confidence.numpy(), 20)), strict=True)
    )
    for counts in draw_counts(size, 5, seed=3):
        found = estimator.metrics(resample(table, counts[table.order]))
        copies = reference.repeated(examples, counts)
        confidence, correct = reference.plain(copies)
        widths = reference.width_groups(confidence, 20)
        gaps = {g: np.mean([confidence[i] - correct[i] for i in range(size) if widths[i] == g]) for g in widths}
        expected = {
            "accuracy": correct.mean(),
            "mean_confidence": confidence.mean(),
            "nll": copies.nll.mean(),
            "brier": copies.brier.mean(),
            "ece": reference.ece(confidence, correct, widths),
            "adaptive_ece": reference.ece(confidence, correct, [mass_of[c] for c in confidence]),
            "debiased_ece": debiased_ece(copies),
            "mce": max(abs(gap) for gap in gaps.values()),
            "rmsce": np.sqrt(np.mean([gaps[g] ** 2 for g in widths])),
            "aurc": reference.aurc(confidence, correct),
            "excess_aurc": reference.excess_aurc(confidence, correct),
            "overconfidence": np.mean([max(gaps[g], 0) for g in widths]),
            "underconfidence": np.mean([max(-gaps[g], 0) for g in widths]),
        }
        for name, value in expected.items():
            assert float(found[name]) == pytest.approx(float(value), abs=1e-10), name


def test_draws_are_multinomial() -> None:
    counts = np.stack(list(draw_counts(50, 4000, seed=0)))
    assert (counts.sum(1) == 50).all()
    assert counts.mean() == 1
    assert counts.var() == pytest.approx(1 - 1 / 50, rel=0.02)
    assert np.corrcoef(counts[:, 0], counts[:, 1])[0, 1] == pytest.approx(-1 / 49, abs=0.05)
    assert (np.stack(list(draw_counts(50, 3, seed=0))) == counts[:3]).all()


def test_the_nll_of_a_resample_is_infinite_only_if_an_infinite_example_is_drawn() -> None:
    probs = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    table = SortedExamples(Examples.of(probs=probs, labels=torch.tensor([1, 0])), 20)
    assert np.isinf(resample(table, np.array([1, 1])).nll)
    assert resample(table, np.array([0, 2])).nll == pytest.approx(np.log(2))


def test_estimates_equal_a_calibration_for_huge_logits() -> None:
    logits, labels = torch.randn(300, 4, generator=torch.Generator().manual_seed(0)) * 1e4, torch.arange(300) % 4
    calibration = ss.Calibration()
    calibration.update(logits=logits, labels=labels)
    examples = Examples.of(logits=logits, labels=labels)
    found = Estimator(examples, 20).estimates()
    result = calibration.compute()
    for name in result.metrics():
        assert float(found[name]) == pytest.approx(getattr(result, name), rel=1e-6), name
    assert adaptive_ece(examples) == pytest.approx(result.ece)  # nearly all confidences are 1: one bin


def test_groups_of_examples_give_nearly_the_same_intervals() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(20_000, 4, generator=generator) * 2
    labels = torch.multinomial((logits / 1.5).softmax(1), 1, generator=generator).squeeze(1)
    a, b = (Examples.of(logits=logits * scale, labels=labels) for scale in (1.0, 1.2))
    exact, grouped = bootstrap(a, replicates=300), bootstrap(a, replicates=300, groups=1000)
    for name, one in exact.items():
        assert grouped[name].estimate == one.estimate
        assert grouped[name].standard_error == pytest.approx(one.standard_error, rel=0.25), name
        width = one.high - one.low
        assert grouped[name].low == pytest.approx(one.low, abs=0.25 * width), name
        assert grouped[name].high == pytest.approx(one.high, abs=0.25 * width), name
    for groups in (None, 1000):
        first, second = (
            Estimator(one).resample(300, 0, ("ece", "nll"), groups=groups, by_position=True) for one in (a, b)
        )
        found = compare_resampled(first, second, "nll")
        assert found.low < found.difference < found.high < 0
        if groups is None:
            exact_nll = found
    assert found.difference == exact_nll.difference
    assert found.high - found.low == pytest.approx(exact_nll.high - exact_nll.low, rel=0.25)
    with pytest.raises(ValueError, match=r"groups must be at most the number of examples, 3, got 5"):
        bootstrap(Examples.of(logits=logits[:3], labels=labels[:3]), replicates=10, groups=5)


def test_means_of_a_resample_are_divided_by_its_size() -> None:
    # All examples have the same NLL and Brier score. Groups of 3 and 2 examples make resamples of 4 to 6.
    examples = Examples.of(probs=torch.full((5, 2), 0.5, dtype=torch.float64), labels=torch.tensor([0, 1, 0, 1, 0]))
    found = resample_groups(SortedExamples(examples, 20), 2, 50, seed=0)
    assert set(found.size.sum(-1)) == {4, 5, 6}
    assert found.nll == pytest.approx([np.log(2)] * 50)
    assert found.brier == pytest.approx([0.5] * 50)
