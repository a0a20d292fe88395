"""The two protocols of the paper for fitting a temperature."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from singleshot.paper.protocols import case2_split, temperature_case1, temperature_case2
from singleshot.posthoc import TemperatureScaling

LOGITS = torch.randn(120, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 4
LABELS = torch.multinomial((LOGITS / 2).softmax(1), 1, generator=torch.Generator().manual_seed(1)).squeeze(1)


def test_temperatures_of_both_cases() -> None:
    train, held_out = case2_split(LABELS)
    assert len(held_out) == 12
    assert sorted([*train.tolist(), *held_out.tolist()]) == list(range(120))
    assert torch.equal(held_out, case2_split(LABELS.numpy())[1])
    whole = TemperatureScaling.fit(LOGITS, LABELS).temperature
    assert temperature_case1(LOGITS, LABELS).temperature == whole
    case2 = temperature_case2(LOGITS, LABELS, held_out).temperature
    assert case2 == TemperatureScaling.fit(LOGITS[held_out], LABELS[held_out]).temperature != whole
    assert temperature_case2(LOGITS, LABELS).temperature == case2
    other = case2_split(LABELS, held_out=0.5)[1]
    expected = TemperatureScaling.fit(LOGITS[other], LABELS[other]).temperature
    assert temperature_case2(LOGITS, LABELS, other.numpy()).temperature == expected
    mask = torch.zeros(120, dtype=torch.bool).index_fill(0, other, True)
    assert temperature_case2(LOGITS, LABELS, mask).temperature == expected


@pytest.mark.parametrize(
    ("held_out", "message"),
    [
        ([0, 120], r"held_out must select some of the 120 examples: index 120 is out of bounds"),
        ([], "held_out must select some"),
        (torch.zeros(120, dtype=torch.bool), "at least one example"),
        ([0.5], "held_out must select some"),
    ],
)
def test_invalid_held_out_positions(held_out: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        temperature_case2(LOGITS, LABELS, held_out)


@pytest.mark.parametrize(
    ("labels", "held_out", "message"),
    [
        ([0, 1, 0], 0.0, r"held_out must lie in \(0, 1\)"),
        ([0, 1, 0], 0.1, "is less than one image"),
        ([], 0.1, "at least one example"),
        ([0.5, 1.0], 0.5, "integer class indices"),
        ([0, -1, 2], 0.5, r"labels\[1\] = -1"),
    ],
)
def test_invalid_splits(labels: list[float], held_out: float, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        case2_split(labels, held_out=held_out)
