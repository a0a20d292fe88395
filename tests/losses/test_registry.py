"""The calibration losses against their oracles, the registry, and training with every loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from sklearn.datasets import load_digits
from torch import Tensor, nn

import oracle
import singleshot as ss
from singleshot.common.loss_names import LossName
from singleshot.losses.registry import LOSSES
from singleshot.training.distributed import Processes
from singleshot.training.recipe import STRENGTHS, Recipe
from singleshot.training.step import Stepper

SHAPES = [(5, 4, 3), (1, 6, 10), (3, 1, 2), (2, 40, 7)]


def batch(shape: tuple[int, ...], seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(shape, dtype=torch.float64, generator=generator) * 3
    return logits, torch.randint(0, shape[-1], shape[-2:-1], generator=generator)


def gamma_53(p: float) -> float:
    return 5.0 if p < 0.2 else 3.0


@pytest.mark.parametrize("shape", SHAPES)
def test_losses_of_examples_equal_the_oracle(shape: tuple[int, ...]) -> None:
    logits, labels = batch(shape)
    array, index = logits.numpy(), labels.numpy()
    truth, onehot = oracle.ground_truth(array, index), np.eye(shape[-1])[index]
    gamma = ss.AdaptiveGamma(bins=4)
    gamma.gammas = torch.tensor([2.0, -0.5, 0.2, -2.0], dtype=torch.float64)
    expected = {
        ss.flsd_loss(logits, labels, reduction="none"): oracle.focal(array, index, gamma_53),
        ss.dual_focal_loss(logits, labels, gamma=2.5, reduction="none"): oracle.dual_focal(array, index, 2.5),
        ss.adafocal_loss(logits, labels, gamma=gamma, reduction="none"): oracle.focal(
            array, index, lambda p: [2.0, -0.5, 0.2, -2.0][int(p * 4)]
        ),
        ss.margin_smoothing_loss(logits, labels, penalty=0.3, margin=2.0, reduction="none"): truth
        + 0.3 * oracle.margin_excess(array, 2.0),
        ss.brier_loss(logits, labels, reduction="none"): oracle.brier(array, onehot),
    }
    for found, wanted in expected.items():
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10)


ERRORS = {"mmce": oracle.mmce, "mdca": oracle.mdca, "dca": oracle.dca, "soft_ece": oracle.soft_ece}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("shape", SHAPES)
def test_losses_of_batches_equal_the_oracle(name: str, shape: tuple[int, ...]) -> None:
    logits, labels = batch(shape)
    weight = torch.linspace(0.5, 2, shape[-1], dtype=torch.float64)
    error = float(np.mean([ERRORS[name](oracle.softmax(one), labels.numpy()) for one in logits.numpy()]))
    plain = ss.cross_entropy_loss(logits, labels, weight=weight)
    found = ss.create_loss(name, 0.7, weight=weight)(logits, labels)
    np.testing.assert_allclose(found, plain + 0.7 * error, rtol=0, atol=1e-10)
    for reduction in ("none", "sum"):
        plain = ss.cross_entropy_loss(logits, labels, reduction=reduction)
        extra = 0.7 * error * (1 if reduction == "none" else len(labels))
        found = ss.create_loss(name, 0.7, reduction=reduction)(logits, labels)
        np.testing.assert_allclose(found, plain + extra, rtol=0, atol=1e-10)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 30), st.integers(2, 6), st.integers(0, 2**31), st.floats(0, 50))
def test_the_sorted_mmce_equals_the_double_sum(examples: int, classes: int, seed: int, scale: float) -> None:
    logits, labels = batch((examples, classes), seed)
    logits = (logits * scale).round() / 3  # with ties
    expected = oracle.mmce(oracle.softmax(logits.numpy()), labels.numpy())
    found = ss.mmce_loss(logits, labels, penalty=1.0) - ss.cross_entropy_loss(logits, labels)
    assert float(found) == pytest.approx(expected, abs=1e-6)


def test_adaptive_gammas_equal_the_oracle_and_stay_in_their_range() -> None:
    gamma, expected = ss.AdaptiveGamma(bins=6), np.ones(6)
    for step in range(60):
        logits, labels = batch((50, 4), seed=step % 3)
        if step >= 30:  # overconfident before, underconfident from here on
            logits, labels = logits * 0.05, logits.argmax(1)
        gamma.update(logits=logits, labels=labels)
        expected, edges = oracle.adaptive_gammas(expected, logits.numpy(), labels.numpy())
        np.testing.assert_allclose(gamma.gammas, expected, rtol=1e-9)
        np.testing.assert_allclose(gamma.edges, edges, rtol=1e-12)
        if step == 29:
            assert float(gamma.gammas.max()) > 5
    assert float(gamma.gammas.min()) < 0
    assert bool(((gamma.gammas >= -2) & (gamma.gammas <= 20) & (gamma.gammas.abs() >= 0.2)).all())
    other = ss.AdaptiveGamma()
    other.load_state_dict(gamma.state_dict())
    assert torch.equal(other(torch.linspace(0, 1, 100)), gamma(torch.linspace(0, 1, 100)))
    assert f"{float(gamma.gammas[0]):.3g}" in repr(gamma)


def test_adaptive_gamma_with_fewer_examples_than_bins_and_invalid_states() -> None:
    gamma = ss.AdaptiveGamma()
    gamma.update(logits=torch.tensor([[3.0, 0.0]]), labels=torch.tensor([1]))
    assert (gamma.gammas != 1).sum() == 1  # the other bins have no example
    state = gamma.state_dict()
    for bad in (
        {},
        {**state, "loss": "vwci"},
        {**state, "gammas": [1.0]},
        {**state, "gammas": [50.0] * 15},
        {**state, "edges": ["a"] * 14},
        {**state, "gain": -1.0},
    ):
        with pytest.raises(ValueError, match="not the state of an AdaptiveGamma"):
            gamma.load_state_dict(bad)
    assert gamma.state_dict() == state
    with pytest.raises(ValueError, match="finite"):
        gamma.update(logits=torch.tensor([[torch.nan, 0.0]]), labels=torch.tensor([1]))
    with pytest.raises(TypeError, match=r"AdaptiveGamma, got 3\.0"):
        ss.adafocal_loss(torch.zeros(2, 3), torch.tensor([0, 1]), gamma=3.0)  # type: ignore[arg-type]


def test_the_registry_has_every_name_and_every_module() -> None:
    assert tuple(ss.list_losses()) == get_args(LossName)
    assert set(STRENGTHS) == {name for name, entry in LOSSES.items() if entry.parameter} - {"adafocal"}
    modules = {getattr(ss, name) for name in vars(ss)["__all__"] if name.endswith("Loss")}
    assert {entry.module for entry in LOSSES.values()} == modules
    logits, labels = batch((3, 6, 4))
    for name, entry in LOSSES.items():
        assert isinstance(ss.create_loss(name), entry.module)
        recipe = Recipe()
        if entry.usual is not None:  # the recipe has the same default
            assert getattr(recipe, STRENGTHS[name]) == entry.usual
        if name in STRENGTHS:
            weak, strong = (ss.create_loss(name, strength)(logits, labels) for strength in (0.3, 0.9))
            assert float(weak) != float(strong), name
            assert f"{entry.parameter}=0.3" in repr(ss.create_loss(name, 0.3))
    with pytest.raises(ValueError, match="loss='hinge' is unknown; choose one of cross_entropy"):
        ss.create_loss("hinge")
    assert "margin=2.0" in repr(ss.create_loss("margin_smoothing", 0.5, margin=2.0))
    with pytest.raises(TypeError, match="unexpected keyword argument 'margins'"):
        ss.create_loss("margin_smoothing", margins=2.0)
    with pytest.raises(ValueError, match=r"brier has no strength, got 2\.0"):
        ss.create_loss("brier", 2.0)
    with pytest.raises(ValueError, match=r"penalty must lie in \[0, inf\), got -1"):
        ss.create_loss("mdca", -1)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("loss", get_args(LossName))
def test_every_loss_trains_digits(loss: LossName, precision: Any) -> None:
    data = load_digits()
    images, labels = torch.tensor(data.data / 16).float(), torch.tensor(data.target)
    recipe = Recipe(loss=loss, precision=precision, samples=3 if loss == "vwci" else 1, channels_last=False)
    recipe = replace(recipe.resolved(), weight_decay=0.0, momentum=0.0)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
    stepper = Stepper(network, recipe, Processes())
    strength = ss.AdaptiveGamma() if loss == "adafocal" else None
    rate = 0.5 if loss == "brier" else 0.1  # its gradient is smaller
    losses = []
    for step in range(250):
        chosen = torch.randint(0, 1500, (64,), generator=torch.Generator().manual_seed(step))
        losses.append(stepper.advance(images[chosen], labels[chosen], rate, strength=strength).loss)
        if strength is not None and step % 20 == 19:
            strength.update(logits=network.eval()(images[1500:1600]), labels=labels[1500:1600])
    assert sum(losses[-5:]) < sum(losses[:5])
    accuracy = (network.eval()(images[1600:]).argmax(1) == labels[1600:]).float().mean()
    assert float(accuracy) > 0.8


def test_a_strength_can_be_given_by_its_own_name() -> None:
    assert repr(ss.create_loss("focal", gamma=2.0)) == repr(ss.create_loss("focal", 2.0))
    assert repr(ss.create_loss("vwci", strength=2.0)) == repr(ss.create_loss("vwci", 2.0))
    assert repr(ss.create_loss("focal")) == repr(ss.create_loss("focal", 3.0))
