from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import oracle
import singleshot as ss
from singleshot.uncertainty import VARIANCE_KINDS


def passes() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 300, 4, dtype=torch.float64, generator=generator) * 2
    return logits, torch.randint(0, 4, (300,), generator=generator)


@pytest.mark.parametrize("kind", sorted(VARIANCE_KINDS))
def test_histogram_equals_the_oracle(kind: str) -> None:
    logits, labels = passes()
    alpha, mean = oracle.alpha(logits.numpy(), kind), oracle.softmax(logits.numpy()).mean(0)
    index = np.array([oracle.which_bin(value, 20) for value in alpha])
    histogram = ss.VarianceHistogram(bins=20)
    histogram.update(logits=logits[:, :100], labels=labels[:100], kind=kind)
    rest = ss.VarianceHistogram(bins=20)
    rest.update(logits=logits[:, 100:], labels=labels[100:], kind=kind)
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
    assert len(np.unique(index)) > 1  # otherwise this shows nothing


def test_saved_and_empty_histograms() -> None:
    histogram = ss.VarianceHistogram()
    with pytest.raises(ValueError, match="at least one example"):
        histogram.compute()
    histogram.update(logits=passes()[0], labels=passes()[1])
    assert ss.VarianceHistogram.from_json(histogram.to_json()).to_json() == histogram.to_json()
    with pytest.raises(ValueError, match="not a saved VarianceHistogram"):
        ss.VarianceHistogram.from_json(ss.Calibration().to_json())
    with pytest.raises(ValueError, match="bins must be at least 1"):
        ss.VarianceHistogram(bins=0)
