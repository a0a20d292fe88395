"""The tree runs as many branches as it should, counted and in expectation."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from branch_runs import expected_branch_runs, relative_branch_runs
from torch import nn
from zoo import build

import singleshot as ss
from singleshot.models import create_model
from singleshot.sampling import StochasticDepthBlock
from singleshot.sampling.stochastic_depth import linear_survival

ROWS = 2


def enumerated(survivals: list[float], samples: int) -> float:
    """The expectation by its definition: every beginning, and the chance that some pass begins so."""
    total = 0.0
    for length in range(1, len(survivals) + 1):
        for coins in itertools.product((True, False), repeat=length):
            if coins[-1]:
                chance = math.prod(p if kept else 1 - p for p, kept in zip(survivals, coins, strict=False))
                total += 1 - (1 - chance) ** samples
    return total


def test_expected_runs_equal_their_enumeration() -> None:
    for survivals in ([1.0], [0.3], [0.9, 0.5, 0.7], linear_survival(8, 0.5)):
        for samples in (1, 2, 5, 50):
            assert expected_branch_runs(survivals, samples) == pytest.approx(enumerated(survivals, samples), rel=1e-9)


def test_counts_of_the_papers_networks() -> None:
    """Five passes in a row would run 5 times the branches of one."""
    assert relative_branch_runs(linear_survival(8, 0.5), 5) == pytest.approx(2.75, abs=0.005)
    assert relative_branch_runs(linear_survival(16, 0.5), 5) == pytest.approx(3.28, abs=0.005)
    assert relative_branch_runs(linear_survival(8, 0.5), 1) == pytest.approx(1)
    assert relative_branch_runs([1.0] * 8, 5) == pytest.approx(1)


@pytest.mark.parametrize("training", [True, False])
def test_the_sampler_runs_what_the_coins_ask_for_and_no_more(training: bool) -> None:
    model, _ = build("resnet18")
    model.train(training)
    x = torch.randn(ROWS, 3, 8, 8)
    blocks = [module for module in model.modules() if isinstance(module, StochasticDepthBlock)]
    coins: list[list[bool]] = [[] for _ in blocks]
    runs = [0] * len(blocks)
    for position, block in enumerate(blocks):
        _watch(block, position, coins, runs)
    rounds, passes = 20, 5
    with torch.no_grad():
        for seed in range(rounds):
            ss.sample(model, x, samples=passes, seed=seed)
    wanted = [0] * len(blocks)
    for number in range(rounds):
        drawn = [row[number * passes : (number + 1) * passes] for row in coins]
        for position in range(len(blocks)):
            beginnings = {tuple(drawn[j][t] for j in range(position + 1)) for t in range(passes)}
            wanted[position] += sum(beginning[-1] for beginning in beginnings)
    assert runs == wanted
    expected = expected_branch_runs([block.survival for block in blocks], passes)
    assert sum(runs) / rounds == pytest.approx(expected, rel=0.15)


def _watch(block: StochasticDepthBlock, position: int, coins: list[list[bool]], runs: list[int]) -> None:
    draw, convolution = block.draw, next(part for part in block.branch.modules() if isinstance(part, nn.Conv2d))

    def noted() -> bool:
        coins[position].append(draw())
        return coins[position][-1]

    def counted(x: torch.Tensor) -> torch.Tensor:
        runs[position] += 1
        return nn.Conv2d.forward(convolution, x)

    block.draw = noted  # type: ignore[method-assign]
    vars(convolution)["forward"] = counted


def test_explain_says_where_noise_starts_and_what_is_shared() -> None:
    model, x = create_model("vgg16", num_classes=5, width=0.125), torch.randn(2, 3, 32, 32)
    for mode in (True, False):
        found = ss.explain(model.train(mode), x)
        assert found.starts_at == "'classifier.0'"
        assert found.shared_work > 0.98
        assert found.relative_work == pytest.approx(1, abs=0.1)
    assert "noise starts at: 'classifier.0'" in str(found)
    assert ss.explain(*build("functional")).starts_at == "dropout in FunctionalDropout"
    assert ss.explain(*build("bert")).starts_at == "dropout in layers.0"
    wide = ss.explain(*build("wide_resnet16_8"))
    assert wide.shared_work < 0.1
    assert wide.relative_work == pytest.approx(5, abs=0.3)
    resnet, x = build("resnet18")
    assert ss.explain(resnet, x).noise[0] == "blocks.0"
    assert ss.explain(resnet, x).starts_at == "'blocks.0'"
    with pytest.raises(ValueError, match="Linear has no noise"):
        ss.explain(nn.Linear(4, 3), torch.randn(2, 4))
