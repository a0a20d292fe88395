"""Resamples of groups against resamples of the examples themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from singleshot.metrics import Examples, bootstrap
from singleshot.metrics.resampling import resample_groups, sort_examples
from singleshot.metrics.significance import compare_resampled, resampled_metrics


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
        first, second = (resampled_metrics(one, ("ece", "nll"), replicates=300, groups=groups) for one in (a, b))
        found = compare_resampled(first, second, "nll")
        assert found.low < found.difference < found.high < 0
        if groups is None:
            exact_nll = found
    assert found.difference == exact_nll.difference
    assert found.high - found.low == pytest.approx(exact_nll.high - exact_nll.low, rel=0.25)
    with pytest.raises(ValueError, match=r"groups must be at most the number of examples, 3, got 5"):
        bootstrap(Examples.of(logits=logits[:3], labels=labels[:3]), replicates=10, groups=5)


def test_a_resample_is_divided_by_its_own_size() -> None:
    # Every example has the same NLL and Brier score, and so has their mean; groups of 3 and 2 make resamples of 4 to 6.
    examples = Examples.of(probs=torch.full((5, 2), 0.5, dtype=torch.float64), labels=torch.tensor([0, 1, 0, 1, 0]))
    found = list(resample_groups(sort_examples(examples, 20), 2, 50, seed=0))
    assert {float(one.cells.size.sum()) for one in found} == {4, 5, 6}
    assert [float(one.nll) for one in found] == pytest.approx([np.log(2)] * 50)
    assert [float(one.brier) for one in found] == pytest.approx([0.5] * 50)
