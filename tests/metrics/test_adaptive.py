from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import example_oracle as reference
from singleshot.metrics import adaptive_ece
from singleshot.metrics.binning import equal_mass_index


@pytest.mark.parametrize("bins", [1, 2, 15, 20])
@pytest.mark.parametrize("size", [1, 7, 100])
@pytest.mark.parametrize("ties", [False, True])
def test_equals_the_oracle(bins: int, size: int, ties: bool) -> None:
    examples = reference.drawn(size, seed=size, ties=ties)
    confidence, correct = reference.plain(examples)
    groups = reference.mass_groups(confidence, bins)
    assert equal_mass_index(confidence, bins).tolist() == groups
    assert adaptive_ece(examples, bins) == pytest.approx(reference.ece(confidence, correct, groups), abs=1e-12)


def test_distinct_confidences_fill_the_bins_equally() -> None:
    index = equal_mass_index(np.random.default_rng(0).random(400), 20)
    assert np.bincount(index).tolist() == [20] * 20


@given(st.lists(st.sampled_from([0.1, 0.5, 0.5000001, 0.9, 1.0]), min_size=1, max_size=50), st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_equal_confidences_share_a_bin_and_order_does_not_matter(values: list[float], bins: int) -> None:
    confidence = np.array(values)
    index = equal_mass_index(confidence, bins)
    for value in set(values):
        assert len(set(index[confidence == value].tolist())) == 1
    assert (np.diff(index[np.argsort(confidence, kind="stable")]) >= 0).all()
    assert (equal_mass_index(confidence[::-1].copy(), bins)[::-1] == index).all()
    assert 0 <= index.min() <= index.max() < bins


def test_bins_are_checked() -> None:
    with pytest.raises(ValueError, match="bins must be a whole number of at least 1"):
        adaptive_ece(reference.drawn(5), bins=0)
