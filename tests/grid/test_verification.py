"""Comparison of a stored result with a repeated run."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from hypothesis import given, strategies as st

from fake_results import BASE, fake_result
from singleshot.grid.verification import differences
from singleshot.paper.methods import job_of

RESULT = fake_result(
    job_of(BASE, "baseline", seed=0), logits=torch.tensor([[2.0, 0.5], [0.0, 1.0]]), labels=torch.tensor([0, 0])
)


def test_time_and_place_do_not_count() -> None:
    elsewhere = replace(RESULT, seconds=RESULT.seconds + 1, cpu_seconds=3.5, environment={"torch": "9"}, device="cuda")
    assert differences(RESULT, elsewhere) == []


def test_the_smallest_difference_is_found_and_named() -> None:
    data = {**RESULT.data, "extra": [0.1, math.nan]}
    stored = replace(RESULT, data=data)
    assert differences(stored, replace(RESULT, data={**data, "extra": [0.1, math.nan]})) == []
    repeated = replace(RESULT, data={**data, "extra": [math.nextafter(0.1, 1), math.nan]})
    assert differences(stored, repeated) == ["data.extra[0]: 0.1 is stored, 0.10000000000000002 was measured"]
    (missing,) = differences(stored, replace(RESULT, data={**data, "extra": [0.1]}))
    assert missing.startswith("data.extra: [0.1, nan] is stored")
    assert differences(stored, RESULT)[0].startswith("data: ")


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_numbers_are_equal_only_if_all_bits_are(one: float, other: float) -> None:
    found = differences(
        replace(RESULT, data={**RESULT.data, "x": one}), replace(RESULT, data={**RESULT.data, "x": other})
    )
    assert (found == []) == (one.hex() == other.hex())
