"""The T samples of an example are independent draws."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from zoo import ResidualWith, StochasticDepth

import singleshot as ss


def bits(passes: int = 4000, rows: int = 3, units: int = 2) -> Tensor:
    """The dropout masks themselves, (T, B, D), read off an identity layer."""
    identity = nn.Linear(units, units, bias=False)
    model = nn.Sequential(nn.Dropout(0.5), identity)
    with torch.no_grad():
        identity.weight.copy_(torch.eye(units))
        return ss.sample(model, torch.ones(rows, units), samples=passes, seed=0) / 2


def test_masks_are_independent_between_passes_rows_and_units() -> None:
    drawn = bits()
    passes = len(drawn)
    assert set(drawn.flatten().tolist()) == {0.0, 1.0}
    bound = 4.5 / math.sqrt(passes)  # in standard deviations of a correlation of independent bits
    columns = drawn.flatten(1)
    assert float((columns.mean(0) - 0.5).abs().max()) < bound / 2
    correlation = torch.corrcoef(columns.T) - torch.eye(columns.shape[1])
    assert float(correlation.abs().max()) < bound
    for lag in (1, 2, 3):
        centred = columns - 0.5
        assert float(((centred[lag:] * centred[:-lag]).mean(0) * 4).abs().max()) < bound


@pytest.mark.parametrize("mode", ["row", "batch"])
def test_coins_are_one_per_row_or_one_per_pass(mode: str) -> None:
    model = ResidualWith(StochasticDepth(0.5, mode))
    model.branch = nn.Sequential(nn.Linear(8, 8))
    passes = 1500
    with torch.no_grad():
        logits = ss.sample(model, torch.randn(1, 12).expand(2, 12), samples=passes, seed=0)
    dropped = (logits - logits.flatten(0, 1)[0]).abs().sum(-1) < 1e-4
    assert abs(float(dropped.float().mean()) - 0.5) < 4.5 * 0.5 / math.sqrt(passes)
    agree = float((dropped[:, 0] == dropped[:, 1]).float().mean())
    if mode == "batch":
        assert agree == 1
    else:
        assert abs(agree - 0.5) < 4.5 * 0.5 / math.sqrt(passes)
    assert abs(float((dropped[1:, 0] == dropped[:-1, 0]).float().mean()) - 0.5) < 4.5 * 0.5 / math.sqrt(passes)
