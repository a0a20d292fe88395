"""Blocks that are dropped as a whole: how often, at what cost, and what that means for the weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from singleshot.models import ResNet, StochasticDepthBlock, resnet18, resnet34
from singleshot.sampling.stochastic_depth import linear_survival


class Double(nn.Module):
    """A branch that counts how often it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = 0

    def forward(self, x: Tensor) -> Tensor:
        self.runs += 1
        return 2 * x


def blocks_of(network: ResNet) -> list[StochasticDepthBlock]:
    blocks = [block for block in network.blocks if isinstance(block, StochasticDepthBlock)]
    assert len(blocks) == len(network.blocks)
    return blocks


def lively_resnet(seed: int = 0) -> ResNet:
    """A narrow ResNet-18 in which no batch norm, running statistics included, is at its neutral value."""
    torch.manual_seed(seed)
    network = resnet18(7, width=0.125)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias)
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2.0)
    return network


@pytest.mark.parametrize(("build", "count"), [(resnet18, 8), (resnet34, 16)])
def test_survival_falls_linearly_to_that_of_the_last_block(build: Callable[..., ResNet], count: int) -> None:
    with torch.device("meta"):
        survivals = [block.survival for block in blocks_of(build(10))]
    assert len(survivals) == count
    assert survivals[0] == pytest.approx(1 - 0.5 / count)
    assert survivals[-1] == 0.5
    for before, after in pairwise(survivals):
        assert before - after == pytest.approx(0.5 / count)


def test_survival_one_never_drops() -> None:
    assert linear_survival(3, 1.0) == [1.0, 1.0, 1.0]
    block = StochasticDepthBlock(nn.Identity(), nn.Identity(), survival=1.0)
    assert all(block.draw() for _ in range(1000))


def test_blocks_are_kept_as_often_as_they_survive() -> None:
    torch.manual_seed(0)
    draws = 4000
    for survival in linear_survival(8, 0.5):
        block = StochasticDepthBlock(nn.Identity(), nn.Identity(), survival=survival)
        kept = sum(block.draw() for _ in range(draws))
        assert abs(kept - draws * survival) < 4 * math.sqrt(draws * survival * (1 - survival))


def test_a_dropped_branch_is_not_run() -> None:
    torch.manual_seed(0)
    branch = Double()
    block = StochasticDepthBlock(branch, nn.Identity(), survival=0.5)
    x = torch.rand(4, 3)
    kept = 0
    for _ in range(50):
        out = block(x)
        assert torch.equal(out, x) or torch.equal(out, 3 * x)  # one coin for the whole batch
        kept += int(torch.equal(out, 3 * x))
    assert 0 < kept < 50
    assert branch.runs == kept
    block.dropped(x)
    assert branch.runs == kept


def test_a_dropped_block_with_a_projection_is_its_activated_shortcut() -> None:
    block = StochasticDepthBlock(Double(), nn.Linear(3, 3), survival=0.5)
    x = torch.randn(5, 3)
    assert torch.equal(block.dropped(x), block.shortcut(x).clamp(min=0))
    assert torch.equal(block.kept(x), (block.shortcut(x) + 2 * x).clamp(min=0))


def test_evaluation_scales_the_branch() -> None:
    block = StochasticDepthBlock(Double(), nn.Identity(), survival=0.7).eval()
    x = torch.tensor([[0.5, 1.0, 0.0]])
    torch.testing.assert_close(block(x), torch.tensor([[1.2, 2.4, 0.0]]))  # x + 0.7 · 2x


def test_evaluation_of_the_whole_network_scales_each_branch() -> None:
    network = lively_resnet().eval()
    images = torch.randn(3, 3, 32, 32)
    x = network.stem(images)
    for block, survival in zip(network.blocks, [1 - k / 16 for k in range(1, 9)], strict=True):
        assert isinstance(block, StochasticDepthBlock)
        x = (block.shortcut(x) + survival * block.branch(x)).clamp(min=0)
    torch.testing.assert_close(network(images), network.head(x))


def test_only_the_block_s_own_flag_decides_about_the_noise() -> None:
    network = lively_resnet().eval()
    before = copy.deepcopy(network.state_dict())
    for block in blocks_of(network):
        block.training = True
    images = torch.randn(2, 3, 32, 32)
    passes = [network(images) for _ in range(8)]
    assert any(not torch.equal(passes[0], other) for other in passes[1:])
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_the_seed_gives_the_same_pass_again() -> None:
    network = lively_resnet()
    images = torch.randn(2, 3, 32, 32)
    passes = []
    for _ in range(2):
        torch.manual_seed(5)
        passes.append(network(images))
    assert torch.equal(*passes)


@pytest.mark.parametrize("training", [True, False])
def test_dropping_a_block_is_zeroing_its_weights(training: bool) -> None:
    """Appendix A, block by block: identity and projection shortcuts, batch norm with either statistics."""
    network = lively_resnet().train(training)
    x = network.stem(torch.randn(3, 3, 32, 32))
    shortcuts = set()
    for block in blocks_of(network):
        zeroed = copy.deepcopy(block)
        for parameter in zeroed.branch.parameters():
            nn.init.zeros_(parameter)
        shortcuts.add(type(block.shortcut))
        dropped = block.dropped(x)
        assert torch.equal(dropped, zeroed.kept(x))
        assert not torch.equal(dropped, block.kept(x))
        x = block.kept(x)
    assert shortcuts == {nn.Identity, nn.Sequential}


def test_the_gradient_of_a_dropped_branch_is_absent() -> None:
    dropped, kept = blocks_of(lively_resnet())[:2]
    torch.autograd.backward(kept.kept(dropped.dropped(torch.rand(2, 8, 4, 4))).sum())
    assert all(parameter.grad is None for parameter in dropped.branch.parameters())
    assert all(parameter.grad is not None for parameter in kept.branch.parameters())


def test_survival_shows() -> None:
    assert "survival=0.9375" in repr(resnet18(10, width=0.05))


@pytest.mark.parametrize("survival", [0.0, -0.1, 1.01, float("nan")])
def test_an_impossible_survival_is_named(survival: float) -> None:
    with pytest.raises(ValueError, match=r"survival must lie in \(0, 1\].*got"):
        StochasticDepthBlock(nn.Identity(), nn.Identity(), survival=survival)
    with pytest.raises(ValueError, match=r"survival must lie in \(0, 1\].*got"):
        resnet18(10, survival=survival)
    with pytest.raises(ValueError, match=r"last must lie in \(0, 1\].*got"):
        linear_survival(3, survival)


def test_no_blocks_have_no_survival() -> None:
    with pytest.raises(ValueError, match="blocks must be a whole number of at least 1, got 0"):
        linear_survival(0, 0.5)
