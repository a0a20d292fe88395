from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import oracle
import singleshot as ss
from singleshot.uncertainty import MEASURES


def passes() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 300, 4, dtype=torch.float64, generator=generator) * 2
    return logits, torch.randint(0, 4, (300,), generator=generator)


@pytest.mark.parametrize("measure", sorted(MEASURES))
def test_histogram_equals_the_oracle(measure: str) -> None:
    logits, labels = passes()
    alpha, mean = oracle.alpha(logits.numpy(), measure), oracle.softmax(logits.numpy()).mean(0)
    index = np.array([oracle.which_bin(value, 20) for value in alpha])
    histogram = ss.VarianceHistogram(bins=20, measure=measure)
    histogram.update(logits=logits[:, :100], labels=labels[:100])
    rest = ss.VarianceHistogram(bins=20, measure=measure)
    rest.update(logits=logits[:, 100:].numpy(), labels=labels[100:].numpy())
    histogram.merge(rest)
    result = histogram.compute()
    correct = mean.argmax(1) == labels.numpy()
    for b in range(20):
        rows = index == b
        assert int(result.count[b]) == rows.sum()
        assert float(result.coverage[b]) == pytest.approx((index <= b).mean(), abs=1e-12)
        if rows.any():
            assert float(result.accuracy[b]) == pytest.approx(correct[rows].mean(), abs=1e-12)
            assert float(result.score[b]) == pytest.approx(mean[rows].max(1).mean(), abs=1e-12)
        else:
            assert bool(result.accuracy[b].isnan())
    assert len(np.unique(index)) > 1  # otherwise the test is trivial


def test_saved_and_empty_histograms() -> None:
    histogram = ss.VarianceHistogram()
    with pytest.raises(ValueError, match="at least one example"):
        histogram.compute()
    histogram.update(logits=passes()[0], labels=passes()[1])
    assert ss.VarianceHistogram.from_dict(histogram.to_dict()).to_dict() == histogram.to_dict()
    with pytest.raises(ValueError, match="not a saved VarianceHistogram"):
        ss.VarianceHistogram.from_dict(ss.Calibration().to_dict())
    with pytest.raises(ValueError, match="bins must be a whole number of at least 1"):
        ss.VarianceHistogram(bins=0)


def test_invalid_input_is_named_and_adds_nothing() -> None:
    invalid = [
        (torch.zeros(2, 4, 3), torch.tensor([0.9, 1.2, 2.7, 3.0]), "integer class indices"),
        (torch.zeros(2, 4, 3), torch.tensor([0]), r"labels must have shape \(4,\)"),
        (torch.zeros(2, 4, 3), torch.tensor([0, 1, 2, 9]), r"labels\[3\] = 9"),
        (torch.zeros(1, 4, 3), torch.tensor([0, 1, 2, 0]), "at least 2 stochastic passes"),
        (torch.zeros(4, 3), torch.tensor([0, 1, 2, 0]), r"\(T, B, C\)"),
        (torch.full((2, 4, 3), float("nan")), torch.tensor([0, 1, 2, 0]), "logits must be finite.*8 of 8 rows"),
    ]
    histogram = ss.VarianceHistogram()
    before = histogram.to_dict()
    for logits, labels, message in invalid:
        with pytest.raises(TypeError if "integer" in message else ValueError, match=message):
            histogram.update(logits=logits, labels=labels)
    assert histogram.to_dict() == before
    with pytest.raises(ValueError, match="measure='tv' is unknown"):
        ss.VarianceHistogram(measure="tv")
