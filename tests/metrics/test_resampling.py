from __future__ import annotations

import numpy as np
import pytest
import torch

import example_oracle as reference
import singleshot as ss
from singleshot.metrics import Examples, adaptive_ece, debiased_ece
from singleshot.metrics.estimates import Estimator
from singleshot.metrics.resampling import draw_counts, resample, sort_examples, whole


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("size", [1, 2, 60])
def test_a_resample_has_the_metrics_of_its_examples_written_out(size: int, ties: bool) -> None:
    examples = reference.drawn(size, seed=size, ties=ties)
    table = sort_examples(examples, 20)
    estimator = Estimator.of(table, whole(table))
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


def test_an_infinite_nll_is_infinite_only_where_it_is_drawn() -> None:
    probs = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    table = sort_examples(Examples.of(probs=probs, labels=torch.tensor([1, 0])), 20)
    assert np.isinf(resample(table, np.array([1, 1])).nll)
    assert resample(table, np.array([0, 2])).nll == pytest.approx(np.log(2))


def test_huge_logits_and_the_whole_agree_with_a_calibration() -> None:
    logits, labels = torch.randn(300, 4, generator=torch.Generator().manual_seed(0)) * 1e4, torch.arange(300) % 4
    calibration = ss.Calibration()
    calibration.update(logits=logits, labels=labels)
    examples = Examples.of(logits=logits, labels=labels)
    table = sort_examples(examples, 20)
    found = Estimator.of(table, whole(table)).metrics(whole(table))
    result = calibration.compute()
    for name in result.metrics():
        assert float(found[name]) == pytest.approx(getattr(result, name), rel=1e-6), name
    assert adaptive_ece(examples) == pytest.approx(result.ece)  # nearly all confidences are 1: one bin
