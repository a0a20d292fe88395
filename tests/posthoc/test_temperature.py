from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

import oracle
import singleshot as ss


def calibrated(examples: int, classes: int, temperature: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Labels drawn from softmax(z); the logits handed out are z times the temperature."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(examples, classes, dtype=torch.float64, generator=generator) * 2
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    return logits * temperature, labels


@pytest.mark.parametrize("temperature", [0.05, 0.3, 1.0, 2.5, 7.0, 50.0])
def test_temperature_equals_a_plain_minimiser(temperature: float) -> None:
    logits, labels = calibrated(500, 8, temperature)
    array, target = logits.numpy(), labels.numpy()
    found = minimize_scalar(
        lambda log_tau: oracle.ground_truth(array[None] / np.exp(log_tau), target).mean(),
        bounds=(np.log(temperature) - 2, np.log(temperature) + 2),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert ss.TemperatureScaling.fit(logits, labels).temperature == pytest.approx(np.exp(found.x), rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("temperature", [0.05, 1.0, 50.0])
def test_the_slope_at_the_temperature_is_zero(temperature: float, dtype: torch.dtype) -> None:
    logits, labels = calibrated(2000, 10, temperature)
    logits = logits.to(dtype)
    tau = ss.TemperatureScaling.fit(logits, labels).temperature
    inverse = torch.tensor(1 / tau, dtype=torch.float64, requires_grad=True)
    loss = torch.nn.functional.cross_entropy(logits.double() * inverse, labels)
    (slope,) = torch.autograd.grad(loss, inverse)
    assert abs(float(slope)) < 1e-10 * float(logits.abs().max())
    assert tau == pytest.approx(temperature, rel=0.1)


def test_scaling_keeps_the_prediction_and_divides() -> None:
    logits, labels = calibrated(200, 5, 3.0)
    scaling = ss.TemperatureScaling.fit(logits, labels)
    torch.testing.assert_close(scaling(logits), logits / scaling.temperature)
    assert torch.equal(scaling(logits).argmax(1), logits.argmax(1))


@pytest.mark.parametrize(("label", "bound", "why"), [(0, 1e-3, "largest logit"), (1, 1e3, "no better than chance")])
def test_without_a_finite_optimum_the_bound_is_returned_and_said(label: int, bound: float, why: str) -> None:
    logits = torch.tensor([[2.0, 0.0], [1.0, 0.0]])
    with pytest.warns(UserWarning, match=f"no finite temperature is best here: .*{why}"):
        scaling = ss.TemperatureScaling.fit(logits, torch.tensor([label, label]))
    assert scaling.temperature == bound


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64), r"got torch.float32 \(0, 3\)"),
        (torch.zeros(2, 3), torch.zeros(3, dtype=torch.int64), "labels must be 2 integers"),
        (torch.zeros(2, 3), torch.tensor([0, 3]), r"\[0, 3\), got values from 0 to 3"),
        (torch.tensor([[0.0, 1.0], [float("nan"), 0.0]]), torch.tensor([0, 1]), "row 1 is not"),
    ],
)
def test_bad_input_is_named(logits: Tensor, labels: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ss.TemperatureScaling.fit(logits, labels)
