"""Sizes, shapes, noise and initialization of the five networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

from singleshot.models import (
    StochasticDepthBlock,
    densenet40_12,
    resnet18,
    resnet34,
    vgg16,
    wide_resnet16_8,
)
from singleshot.models.construction import scaled
from singleshot.models.densenet import DenseLayer, DenseNet
from singleshot.models.resnet import ResNet
from singleshot.models.vgg import VGG
from singleshot.models.wide_resnet import WideBlock, WideResNet

Build = Callable[..., nn.Module]
NETWORKS: list[Build] = [resnet18, resnet34, vgg16, wide_resnet16_8, densenet40_12]
WITH_DROPOUT: list[Build] = [vgg16, wide_resnet16_8, densenet40_12]
CLASSES = 100


def resnet_parameters(stages: Sequence[int]) -> int:
    total = 9 * 3 * 64 + 2 * 64
    inputs = 64
    for count, outputs in zip(stages, (64, 128, 256, 512), strict=True):
        for _ in range(count):
            total += 9 * inputs * outputs + 9 * outputs**2 + 4 * outputs
            if inputs != outputs:
                total += inputs * outputs + 2 * outputs
            inputs = outputs
    return total + (512 + 1) * CLASSES


def vgg_parameters() -> int:
    convolutions = [3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]
    total = sum((9 * a + 1) * b + 2 * b for a, b in pairwise(convolutions))
    return total + 2 * (512 + 1) * 512 + (512 + 1) * CLASSES


def wide_resnet_parameters() -> int:
    total = 9 * 3 * 16
    inputs = 16
    for outputs in (128, 256, 512):
        for _ in range(2):
            total += 2 * inputs + 9 * inputs * outputs + 2 * outputs + 9 * outputs**2
            if inputs != outputs:
                total += inputs * outputs
            inputs = outputs
    return total + 2 * 512 + (512 + 1) * CLASSES


def densenet_parameters() -> int:
    layers = sum(2 * inputs + 9 * inputs * 12 for inputs in range(16, 16 + 36 * 12, 12))
    transitions = sum(2 * channels + channels**2 for channels in (160, 304))
    return 9 * 3 * 16 + layers + transitions + 2 * 448 + (448 + 1) * CLASSES


@pytest.mark.parametrize(
    ("build", "expected", "published"),
    [
        (resnet18, resnet_parameters([2, 2, 2, 2]), (11.15e6, 11.25e6)),
        (resnet34, resnet_parameters([3, 4, 6, 3]), (21.25e6, 21.35e6)),
        (vgg16, vgg_parameters(), (15.25e6, 15.35e6)),
        (wide_resnet16_8, wide_resnet_parameters(), (10.95e6, 11.05e6)),
        (densenet40_12, densenet_parameters(), (1.0e6, 1.1e6)),
    ],
)
def test_parameter_counts_match_the_published_ones(build: Build, expected: int, published: tuple[float, float]) -> None:
    with torch.device("meta"):  # no memory is allocated
        network = build(CLASSES)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    assert parameters == expected
    assert published[0] < parameters < published[1]


@pytest.mark.parametrize(
    ("build", "depth", "projections"),
    [(resnet18, 18, 3), (resnet34, 34, 3), (vgg16, 16, 0), (wide_resnet16_8, 14, 3), (densenet40_12, 40, 2)],
)
def test_depths_match_the_names(build: Build, depth: int, projections: int) -> None:
    """DenseNet counts its 1×1 transitions as layers; WRN-16 counts its 13 + 3 convolutions, and no linear layer."""
    with torch.device("meta"):
        network = build(10)
    sizes = [module.kernel_size[0] for module in network.modules() if isinstance(module, nn.Conv2d)]
    linears = sum(isinstance(module, nn.Linear) for module in network.modules())
    assert sizes.count(1) == projections
    counted = projections if build is densenet40_12 else 0
    assert sizes.count(3) + counted + linears == depth


@pytest.mark.parametrize("build", NETWORKS)
def test_shapes(build: Build) -> None:
    for batch, in_channels, width in ((1, 3, 0.125), (3, 1, 0.0625), (2, 1, 0.01), (1, 2, 0.3)):
        network = build(7, in_channels=in_channels, width=width)
        for training in (True, False):
            logits = network.train(training)(torch.randn(batch, in_channels, 32, 32))
            assert logits.shape == (batch, 7)
            assert bool(logits.isfinite().all())
    if build not in {vgg16, resnet34}:
        for height, width in ((64, 64), (28, 36)):
            assert network(torch.randn(2, 2, height, width)).shape == (2, 7)


@pytest.mark.parametrize("build", NETWORKS)
def test_the_size_of_the_last_feature_map(build: Build) -> None:
    """For 32×32 images: 1×1 in VGG, 4×4 in ResNet, 8×8 in the others, for any dtype and memory layout."""
    network = build(7, width=0.0625).eval()
    images = torch.randn(2, 3, 32, 32)
    expected_logits: Tensor = network(images)
    torch.testing.assert_close(network(images.contiguous(memory_format=torch.channels_last)), expected_logits)
    doubled = network.double()(images.double())
    assert doubled.dtype == torch.float64
    torch.testing.assert_close(doubled.float(), expected_logits, rtol=1e-3, atol=1e-4)
    network.float()
    sizes: list[tuple[int, ...]] = []
    for module in network.modules():
        if isinstance(module, nn.AdaptiveAvgPool2d | nn.Flatten):
            module.register_forward_hook(lambda _, inputs, __: sizes.append(tuple(inputs[0].shape[2:])))
    network(torch.randn(2, 3, 32, 32))
    expected: dict[Build, tuple[int, int]] = {vgg16: (1, 1), resnet18: (4, 4), resnet34: (4, 4)}
    assert sizes[0] == expected.get(build, (8, 8))


@pytest.mark.parametrize("build", NETWORKS)
def test_noise_in_training_none_in_evaluation_and_none_at_rate_zero(build: Build) -> None:
    torch.manual_seed(0)
    network = build(7, width=0.125)
    images = torch.randn(4, 3, 32, 32)
    passes = [network(images) for _ in range(4)]
    assert any(not torch.equal(passes[0], other) for other in passes[1:])
    network.eval()
    assert torch.equal(network(images), network(images))
    network = build(7, width=0.0625, **({"dropout": 0.0} if build in WITH_DROPOUT else {"survival": 1.0}))
    assert torch.equal(network(images), network(images))


@pytest.mark.parametrize(
    ("build", "rate", "count"), [(vgg16, 0.5, 2), (wide_resnet16_8, 0.3, 6), (densenet40_12, 0.2, 38)]
)
def test_dropout_rates_and_places(build: Build, rate: float, count: int) -> None:
    with torch.device("meta"):
        modules = list(build(10).modules())
        changed = list(build(10, dropout=0.1).modules())
    assert [module.p for module in modules if isinstance(module, nn.Dropout)] == [rate] * count
    assert [module.p for module in changed if isinstance(module, nn.Dropout)] == [0.1] * count


def test_vgg_drops_before_every_fully_connected_layer_but_the_last() -> None:
    network = vgg16(10, width=0.125)
    kinds = [type(layer).__name__ for layer in network.classifier]
    assert kinds == ["Dropout", "Linear", "ReLU", "Dropout", "Linear", "ReLU", "Linear"]
    assert not any(isinstance(layer, nn.Dropout) for layer in network.features)


@pytest.mark.parametrize("build", NETWORKS)
def test_gradients_reach_every_parameter(build: Build) -> None:
    torch.manual_seed(0)
    options = {"survival": 1.0} if build in NETWORKS[:2] else {"dropout": 0.0}
    network = build(7, width=0.125, **options)
    loss = nn.functional.cross_entropy(network(torch.randn(4, 3, 32, 32)), torch.tensor([0, 1, 2, 6]))
    torch.autograd.backward(loss)
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.isfinite().all()), name
        assert name.endswith("bias") or bool(parameter.grad.any()), name  # a bias before batch norm may get exactly 0


@pytest.mark.parametrize("build", NETWORKS)
def test_initialization(build: Build) -> None:
    torch.manual_seed(0)
    network = build(10, width=0.5)
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            expected = math.sqrt(2 / (module.out_channels * math.prod(module.kernel_size)))
            spread = float(module.weight.detach().std()) / expected
            assert abs(spread - 1) < 5 / math.sqrt(2 * module.weight.numel())
            assert module.bias is None or not bool(module.bias.any())
        elif isinstance(module, nn.BatchNorm2d):
            assert bool((module.weight == 1).all())
            assert not bool(module.bias.any())
        elif isinstance(module, nn.Linear) and build is vgg16:
            expected = 0.01 if module.out_features == 10 else math.sqrt(2 / module.in_features)
            assert float(module.weight.detach().std()) == pytest.approx(expected, rel=0.1)
    if build in {vgg16, densenet40_12}:
        linears = [module for module in network.modules() if isinstance(module, nn.Linear)]
        assert not any(bool(linear.bias.any()) for linear in linears)


def test_a_wide_block_equals_its_formula() -> None:
    network = wide_resnet16_8(7, width=0.125).eval()
    x = torch.randn(2, 2, 8, 8)
    for block in list(network.blocks)[:2]:
        assert isinstance(block, WideBlock)
        first, norm, second = (layer for layer in block.branch if isinstance(layer, nn.Conv2d | nn.BatchNorm2d))
        activated = block.norm(x).clamp(min=0)
        branch = second(norm(first(activated)).clamp(min=0))
        expected = branch + (x if block.projection is None else block.projection(activated))
        x = block(x)
        torch.testing.assert_close(x, expected)


def test_a_dense_layer_concatenates_its_input_and_new_channels() -> None:
    network = densenet40_12(7, width=0.5).eval()
    layer = network.features[1]
    assert isinstance(layer, DenseLayer)
    x = torch.randn(2, 8, 5, 5)
    out = layer(x)
    assert out.shape == (2, 8 + 6, 5, 5)
    assert torch.equal(out[:, :8], x)
    norm, convolution = (part for part in layer.branch if isinstance(part, nn.BatchNorm2d | nn.Conv2d))
    torch.testing.assert_close(out[:, 8:], convolution(norm(x).clamp(min=0)))


@pytest.mark.parametrize("build", WITH_DROPOUT)
def test_traceable(build: Build) -> None:
    network = build(7, width=0.0625)
    images = torch.randn(2, 3, 32, 32)
    traced = fx.symbolic_trace(network)
    called = [traced.get_submodule(str(node.target)) for node in traced.graph.nodes if node.op == "call_module"]
    dropouts = sum(isinstance(module, nn.Dropout) for module in network.modules())
    assert sum(isinstance(module, nn.Dropout) for module in called) == dropouts
    network.eval()
    torch.testing.assert_close(fx.symbolic_trace(network)(images), network(images))


def test_resnets_are_traceable_with_their_blocks_as_leaves() -> None:
    class BlocksAsLeaves(fx.Tracer):
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return isinstance(m, StochasticDepthBlock) or super().is_leaf_module(m, module_qualified_name)

    network = resnet18(7, width=0.0625)
    traced = fx.GraphModule(network, BlocksAsLeaves().trace(network))
    called = [traced.get_submodule(str(node.target)) for node in traced.graph.nodes if node.op == "call_module"]
    assert sum(isinstance(module, StochasticDepthBlock) for module in called) == 8
    images = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(traced.eval()(images), network.eval()(images))


def test_scaled_channels_are_at_least_one() -> None:
    assert [scaled(64, width) for width in (1.0, 0.125, 0.1, 1.5, 1e-6)] == [64, 8, 6, 96, 1]
    with torch.device("meta"):
        assert vgg16(10, width=2.0).classifier[-1].in_features == 1024
        assert resnet18(10, width=0.25).head[-1].in_features == 128


@pytest.mark.parametrize("build", NETWORKS)
def test_invalid_arguments_are_named(build: Build) -> None:
    invalid: list[tuple[type[Exception], dict[str, Any], str]] = [
        (ValueError, {"num_classes": 0}, "num_classes must be a whole number of at least 1, got 0"),
        (TypeError, {"num_classes": 2.5}, "num_classes must be a whole number of at least 1, got 2.5"),
        (ValueError, {"in_channels": 0}, "in_channels must be a whole number of at least 1, got 0"),
        (TypeError, {"width": "0.5"}, "width must be a number, got '0.5'"),
        (ValueError, {"width": 0.0}, r"width must lie in \(0, inf\), got 0.0"),
        (ValueError, {"width": float("nan")}, r"width must lie in \(0, inf\), got nan"),
        (ValueError, {"width": float("inf")}, r"width must lie in \(0, inf\), got inf"),
    ]
    if build in WITH_DROPOUT:
        rates = (-0.1, 1.0, float("nan"))
        invalid += [(ValueError, {"dropout": rate}, r"dropout must lie in \[0, 1\).*got") for rate in rates]
    for error, options, message in invalid:
        with pytest.raises(error, match=message):
            build(**{"num_classes": 10, **options})


def test_invalid_structures_are_named() -> None:
    with pytest.raises(ValueError, match="stages must be a whole number of at least 1, got 0"):
        ResNet((2, 0), 10)
    with pytest.raises(ValueError, match="stages must be a whole number of at least 1, got 0"):
        ResNet((), 10)
    with pytest.raises(ValueError, match=r"stages must have 5 entries.*got \(2, 2\)"):
        VGG((2, 2), 10)
    with pytest.raises(ValueError, match="widening must be a whole number"):
        WideResNet(2, 0, 10)
    with pytest.raises(ValueError, match="growth must be a whole number"):
        DenseNet(12, 0, 10)
