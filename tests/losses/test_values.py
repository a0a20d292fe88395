"""Every loss against the float64 oracle, and against torch where torch has the same loss."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import oracle
import singleshot as ss
from singleshot.uncertainty import MEASURES

SHAPES = [(5, 4, 3), (1, 6, 10), (3, 1, 2), (2, 7, 100)]


def batch(shape: tuple[int, ...], seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(shape, dtype=torch.float64, generator=generator) * 3
    return logits, torch.randint(0, shape[-1], shape[-2:-1], generator=generator)


@pytest.mark.parametrize("shape", SHAPES)
def test_one_pass_losses_equal_the_oracle(shape: tuple[int, ...]) -> None:
    logits, labels = batch(shape)
    array, classes = logits.numpy(), shape[-1]
    truth, uniform = oracle.ground_truth(array, labels.numpy()), oracle.uniform(array)
    entropy = oracle.entropy(oracle.softmax(array)).mean(0)
    of_label = oracle.softmax(array)[:, np.arange(shape[1]), labels.numpy()]
    expected: dict[Callable[..., Tensor], tuple[dict[str, float], oracle.Array]] = {
        ss.cross_entropy_loss: ({}, truth),
        ss.label_smoothing_loss: ({"label_smoothing": 0.3}, 0.7 * truth + 0.3 * uniform),
        ss.ci_loss: ({"beta": 0.1}, truth + 0.1 * (uniform - np.log(classes))),
        ss.entropy_ci_loss: ({"gamma": 0.2}, truth - 0.2 * entropy),
        ss.focal_loss: ({"gamma": 3.0}, -((1 - of_label) ** 3 * np.log(of_label)).mean(0)),
    }
    for loss, (options, values) in expected.items():
        assert_reductions(lambda **kw: loss(logits, labels, **options, **kw), values)  # noqa: B023
        if shape[0] == 1:
            assert_reductions(lambda **kw: loss(logits[0], labels, **options, **kw), values)  # noqa: B023


@pytest.mark.parametrize("kind", sorted(MEASURES))
def test_vwci_equals_the_oracle(kind: str) -> None:
    for shape in (shape for shape in SHAPES if shape[0] > 1):
        logits, labels = batch(shape)
        array = logits.numpy()
        alpha = oracle.alpha(array, kind)
        values = (1 - alpha) * oracle.ground_truth(array, labels.numpy()) + alpha * oracle.uniform(array)
        for differentiate in (False, True):
            loss = functools.partial(ss.vwci_loss, measure=kind, differentiate_alpha=differentiate)
            assert_reductions(functools.partial(loss, logits, labels), values)
        for strength in (0.5, 3.0):
            stronger = alpha ** (1 / strength)
            values = (1 - stronger) * oracle.ground_truth(array, labels.numpy()) + stronger * oracle.uniform(array)
            loss = functools.partial(ss.vwci_loss, measure=kind, strength=strength)
            assert_reductions(functools.partial(loss, logits, labels), values)


def assert_reductions(loss: Callable[..., Tensor], values: oracle.Array) -> None:
    np.testing.assert_allclose(loss(reduction="none"), values, rtol=0, atol=1e-10)
    np.testing.assert_allclose(loss(reduction="sum"), values.sum(), rtol=0, atol=1e-10)
    np.testing.assert_allclose(loss(), values.mean(), rtol=0, atol=1e-10)


def test_detached_vwci_is_label_smoothing_per_example() -> None:
    logits, labels = batch((5, 8, 10))
    logits.requires_grad_()
    alpha = ss.normalized_variance(logits).detach()
    target = (1 - alpha)[:, None] * F.one_hot(labels, 10) + alpha[:, None] / 10
    rows, targets = logits.flatten(0, 1), target.repeat(5, 1)
    reference = F.cross_entropy(rows, targets)
    ours = ss.vwci_loss(logits, labels)
    torch.testing.assert_close(ours, reference, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        torch.autograd.grad(ours, logits)[0], torch.autograd.grad(reference, logits)[0], rtol=0, atol=1e-12
    )
    each = torch.stack(
        [ss.label_smoothing_loss(logits[:, [i]], labels[[i]], label_smoothing=float(alpha[i])) for i in range(8)]
    )
    torch.testing.assert_close(ss.vwci_loss(logits, labels, reduction="none"), each, rtol=0, atol=1e-12)


def test_vwci_of_agreeing_passes_is_cross_entropy() -> None:
    logits, labels = batch((1, 8, 10))
    torch.testing.assert_close(ss.vwci_loss(logits.expand(5, 8, 10), labels), F.cross_entropy(logits[0], labels))


@pytest.mark.parametrize("beta", [1.0, 1e-2, 1e-4])
def test_ci_is_scaled_label_smoothing_up_to_a_constant(beta: float) -> None:
    constants = []
    for seed in range(3):
        logits, labels = batch((6, 10), seed)
        logits.requires_grad_()
        ci = ss.ci_loss(logits, labels, beta=beta)
        smoothing = (1 + beta) * ss.label_smoothing_loss(logits, labels, label_smoothing=beta / (1 + beta))
        constants.append((smoothing - ci).item())
        torch.testing.assert_close(
            torch.autograd.grad(ci, logits)[0], torch.autograd.grad(smoothing, logits)[0], rtol=0, atol=1e-12
        )
    np.testing.assert_allclose(constants, beta * np.log(10), rtol=0, atol=1e-12)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_weights_and_ignored_labels_equal_torch(reduction: str) -> None:
    logits, labels = batch((12, 5))
    labels[[2, 7]] = -100
    weight = torch.rand(5, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) + 0.1
    options: Any = {"weight": weight, "reduction": reduction}
    for smoothing in (0.0, 0.1, 1.0):
        reference = F.cross_entropy(logits, labels, label_smoothing=smoothing, **options)
        ours = ss.label_smoothing_loss(logits, labels, label_smoothing=smoothing, **options)
        torch.testing.assert_close(ours, reference)
        if smoothing == 0:
            torch.testing.assert_close(ss.cross_entropy_loss(logits, labels, **options), reference)
            torch.testing.assert_close(ss.vwci_loss(logits.expand(3, 12, 5), labels, **options), reference)


def test_narrow_integer_labels_do_not_wrap_around() -> None:
    logits, _ = batch((4, 200))
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32):
        labels = torch.tensor([0, 100, 120, 127], dtype=dtype)
        if dtype == torch.uint8:
            labels[1] = 156  # equal to -100, the ignored label, as int8
        torch.testing.assert_close(
            ss.cross_entropy_loss(logits, labels, reduction="none"),
            F.cross_entropy(logits, labels.long(), reduction="none"),
        )


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), float("inf")])
def test_ignored_examples_may_be_nan_or_infinite(value: float) -> None:
    logits, labels = batch((3, 4, 5))
    labels[2] = -100
    clean = logits.clone()
    logits[:, 2, 1] = value
    torch.testing.assert_close(ss.cross_entropy_loss(logits[0], labels), F.cross_entropy(logits[0], labels))
    for loss in (
        ss.vwci_loss,
        lambda z, y: ss.ci_loss(z, y, beta=0.1),
        lambda z, y: ss.entropy_ci_loss(z, y, gamma=0.1),
        lambda z, y: ss.label_smoothing_loss(z, y, label_smoothing=0.1),
        lambda z, y: ss.focal_loss(z, y, gamma=3.0),
    ):
        torch.testing.assert_close(loss(logits, labels), loss(clean, labels))


def test_weighted_losses_equal_the_oracle() -> None:
    logits, labels = batch((3, 6, 4))
    weight = np.array([0.5, 1.0, 2.0, 4.0])
    log_probs = np.log(oracle.softmax(logits.numpy())).mean(0)
    of_label = weight[labels]
    truth = -of_label * log_probs[np.arange(6), labels]
    uniform = -(weight * log_probs).mean(-1)
    alpha = oracle.alpha(logits.numpy(), "total_variation")
    entropy = oracle.entropy(oracle.softmax(logits.numpy())).mean(0)
    given = torch.from_numpy(weight)
    vwci = ((1 - alpha) * truth + alpha * uniform).sum() / of_label.sum()
    np.testing.assert_allclose(
        ss.vwci_loss(logits, labels, measure="total_variation", weight=given), vwci, rtol=0, atol=1e-10
    )
    penalty = (truth - 0.3 * of_label * entropy).sum() / of_label.sum()
    np.testing.assert_allclose(ss.entropy_ci_loss(logits, labels, gamma=0.3, weight=given), penalty, rtol=0, atol=1e-10)
    certain = oracle.softmax(logits.numpy())[:, np.arange(6), labels]
    focal = -(of_label * (1 - certain) ** 2 * np.log(certain)).mean(0).sum() / of_label.sum()
    np.testing.assert_allclose(ss.focal_loss(logits, labels, gamma=2.0, weight=given), focal, rtol=0, atol=1e-10)


def test_focal_loss_with_gamma_0_is_cross_entropy() -> None:
    logits, labels = batch((3, 6, 4))
    torch.testing.assert_close(ss.focal_loss(logits, labels, gamma=0.0), ss.cross_entropy_loss(logits, labels))


@pytest.mark.parametrize("name", ["ci", "entropy_ci", "vwci"])
def test_ignored_examples_do_not_change_the_loss(name: str) -> None:
    logits, labels = batch((3, 8, 5))
    losses: dict[str, Callable[..., Tensor]] = {
        "ci": lambda z, y, **kw: ss.ci_loss(z, y, beta=0.5, **kw),
        "entropy_ci": lambda z, y, **kw: ss.entropy_ci_loss(z, y, gamma=0.5, **kw),
        "vwci": ss.vwci_loss,
    }
    loss = losses[name]
    weight = torch.arange(1, 6, dtype=torch.float64)
    counted = torch.tensor([0, 1, 3, 4, 6, 7])
    masked = labels.clone()
    masked[[2, 5]] = 9
    torch.testing.assert_close(
        loss(logits, masked, weight=weight, ignore_index=9), loss(logits[:, counted], labels[counted], weight=weight)
    )
    assert loss(logits, masked, ignore_index=9, reduction="none")[[2, 5]].tolist() == [0.0, 0.0]


def test_weighted_ci_weighs_each_class_term() -> None:
    logits, labels = batch((4, 3))
    weight = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    log_probs = np.log(oracle.softmax(logits.numpy()))
    rows = np.arange(4)
    truth = -weight.numpy()[labels] * log_probs[rows, labels]
    divergence = (weight.numpy() / 3 * (np.log(1 / 3) - log_probs)).sum(-1)
    np.testing.assert_allclose(
        ss.ci_loss(logits, labels, beta=0.7, weight=weight), (truth + 0.7 * divergence).sum() / weight[labels].sum()
    )


def test_modules_equal_their_functions_and_show_their_options() -> None:
    logits, labels = batch((3, 6, 4))
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    pairs: list[tuple[torch.nn.Module, Callable[..., Tensor], dict[str, object]]] = [
        (ss.CrossEntropyLoss(weight=weight), ss.cross_entropy_loss, {}),
        (ss.LabelSmoothingLoss(label_smoothing=0.2, weight=weight), ss.label_smoothing_loss, {"label_smoothing": 0.2}),
        (ss.CILoss(beta=0.3, weight=weight), ss.ci_loss, {"beta": 0.3}),
        (ss.EntropyCILoss(gamma=0.4, weight=weight), ss.entropy_ci_loss, {"gamma": 0.4}),
        (ss.FocalLoss(gamma=2.0, weight=weight), ss.focal_loss, {"gamma": 2.0}),
        (ss.VWCILoss(measure="hellinger", weight=weight), ss.vwci_loss, {"measure": "hellinger"}),
    ]
    for module, function, options in pairs:
        assert float(module(logits, labels)) == float(function(logits, labels, weight=weight, **options))
        for name, value in options.items():
            assert f"{name}={value!r}" in repr(module)
        assert "weight" in module.state_dict()
        assert "weight='<4 classes>'" in repr(module)


@pytest.mark.parametrize("strength", [1 / 30, 0.5, 1.0, 5.0, 30.0])
def test_passes_that_agree_have_no_pull_at_any_strength(strength: float) -> None:
    one = torch.tensor([[4.0, 0.0, -2.0], [0.0, 0.0, 0.0]])
    logits, labels = one.expand(3, 2, 3).clone().requires_grad_(), torch.tensor([0, 2])
    for differentiate_alpha in (False, True):
        loss = ss.vwci_loss(
            logits,
            labels,
            measure="total_variation",
            strength=strength,
            differentiate_alpha=differentiate_alpha,
            reduction="none",
        )
        torch.testing.assert_close(loss, F.cross_entropy(one, labels, reduction="none"), rtol=0, atol=1e-6)
        (gradient,) = torch.autograd.grad(loss.sum(), logits)
        assert bool(gradient.isfinite().all())


def test_the_gradient_of_vwci_has_the_bits_of_its_plain_expression() -> None:
    """Stored runs are reproduced to the bit only if the terms are summed in this order."""
    logits = torch.randn(5, 64, 10, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = torch.arange(64) % 10
    (found,) = torch.autograd.grad(ss.vwci_loss(logits, labels), logits)
    log_probs = logits.log_softmax(-1)
    alpha = ss.normalized_variance(logits.detach())
    average = log_probs.mean(0)
    ground_truth, uniform = -average.gather(-1, labels.unsqueeze(-1)).squeeze(-1), -average.mean(-1)
    plain = ((1 - alpha) * ground_truth + alpha * uniform).sum() / 64
    assert torch.equal(found, torch.autograd.grad(plain, logits)[0])
