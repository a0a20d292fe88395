from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import binomtest

from singleshot.metrics import wilson_interval


@given(st.integers(1, 1000), st.data(), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_equals_scipy_one_proportion_at_a_time(count: int, data: st.DataObject, level: float) -> None:
    successes = data.draw(st.integers(0, count))
    low, high = wilson_interval(successes, count, level)
    expected = binomtest(successes, count).proportion_ci(level, method="wilson")
    assert low == pytest.approx(expected.low, abs=1e-12)
    assert high == pytest.approx(expected.high, abs=1e-12)
    assert low <= successes / count <= high


def test_all_none_and_nothing() -> None:
    low, high = wilson_interval([0, 7, 0], [7, 7, 0])
    assert low[0] == 0
    assert high[1] == 1
    assert 0 < high[0] < 1
    assert 0 < low[1] < 1
    assert np.isnan([low[2], high[2]]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([3], [2]), r"successes must lie between 0 and counts: got 3 of 2 at 0"),
        (([-1], [2]), "successes must lie between"),
        (([1, 2], [1, 2, 3]), "one shape"),
        ((["a"], [1]), "successes must be numbers"),
        (([1], [2], 1.0), "level must lie strictly between 0 and 1"),
        (([1], [2], 95), "level must lie"),
    ],
)
def test_mistakes_are_named(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wilson_interval(*arguments)  # type: ignore[arg-type]
