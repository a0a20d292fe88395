"""Vector and matrix scaling against a generic minimiser on the objective written out in numpy."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize
from torch import Tensor

import oracle
from singleshot.posthoc import MatrixScaling, TemperatureScaling, VectorScaling
from singleshot.posthoc.affine_solver import Array

Fit = Callable[..., Any]


def miscalibrated(examples: int, classes: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Labels drawn from logits with a scale and bias of each class; the float64 logits are handed out without them."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(examples, classes, dtype=torch.float64, generator=generator) * 2
    scale = 0.5 + torch.rand(classes, dtype=torch.float64, generator=generator)
    bias = torch.randn(classes, dtype=torch.float64, generator=generator)
    labels = torch.multinomial((logits * scale + bias).softmax(1), 1, generator=generator).squeeze(1)
    labels[:classes] = torch.arange(classes)  # none is missing
    return logits, labels


def mean_nll(logits: Tensor, labels: Tensor) -> float:
    probs = oracle.softmax(logits.double().numpy())
    return float(-np.log(probs[np.arange(len(labels)), labels.numpy()]).mean())


def features(logits: Array, on: str) -> Array:
    result: Array = np.log(oracle.softmax(logits)) if on == "log_probs" else logits - logits.mean(1)[:, None]
    return result


def objective(weight: Array, bias: Array, x: Array, labels: Array, tau: float, strength: float, off: float) -> float:
    """The formula of the docstrings, an example at a time."""
    examples, classes = x.shape
    total = 0.0
    for row, label in zip(x, labels.astype(int), strict=True):
        scores = np.array([weight[c] @ row + bias[c] for c in range(classes)])
        total += np.log(np.exp(scores - scores.max()).sum()) + scores.max() - scores[label]
    change = tau * weight - np.eye(classes)
    own = (np.diag(change) ** 2).sum() + (bias**2).sum()
    others = (change**2).sum() - (np.diag(change) ** 2).sum()
    return float(total / examples + strength / (2 * examples) * own + off / (2 * examples) * others)


@pytest.mark.parametrize("strength", [0.1, 3.0, 1000.0])
def test_vector_scaling_minimises_its_objective(strength: float) -> None:
    logits, labels = miscalibrated(60, 3)
    tau = TemperatureScaling.fit(logits, labels).temperature
    scaling = VectorScaling.fit(logits, labels, strength=strength)
    x, y = features(logits.numpy(), "logits"), labels.numpy().astype(np.float64)

    def value(flat: Array) -> float:
        return objective(np.diag(flat[:3]), flat[3:], x, y, tau, strength, 0.0)

    found = np.concatenate([scaling.scale.numpy(), scaling.bias.numpy()])
    best = minimize(value, np.concatenate([np.full(3, 1 / tau), np.zeros(3)]), method="BFGS", options={"gtol": 1e-7})
    assert value(found) <= best.fun + 1e-12
    np.testing.assert_allclose(found, best.x, atol=2e-5)


@pytest.mark.parametrize("on", ["logits", "log_probs"])
@pytest.mark.parametrize("off_diagonal", [0.5, 50.0])
def test_matrix_scaling_minimises_its_objective(on: Any, off_diagonal: float) -> None:
    logits, labels = miscalibrated(60, 3, seed=1)
    tau = TemperatureScaling.fit(logits, labels).temperature
    scaling = MatrixScaling.fit(logits, labels, on=on, strength=2.0, off_diagonal=off_diagonal)
    x, y = features(logits.numpy(), on), labels.numpy().astype(np.float64)

    def value(flat: Array) -> float:
        return objective(flat[:9].reshape(3, 3), flat[9:], x, y, tau, 2.0, off_diagonal)

    found = np.concatenate([scaling.weight.numpy().ravel(), scaling.bias.numpy()])
    start = np.concatenate([np.eye(3).ravel() / tau, np.zeros(3)])
    best = minimize(value, start, method="BFGS", options={"gtol": 1e-7})
    assert value(found) <= best.fun + 1e-12
    np.testing.assert_allclose(found, best.x, atol=5e-5)


def test_matrix_scaling_agrees_with_scikit_learns_logistic_regression() -> None:
    """With almost no prior, matrix scaling is logistic regression."""
    from sklearn.linear_model import LogisticRegression

    logits, labels = miscalibrated(2000, 3)
    ours = MatrixScaling.fit(logits, labels, strength=1e-6, off_diagonal=1e-6)(logits).softmax(1)
    plain = LogisticRegression(C=1e6, tol=1e-10, max_iter=10_000).fit(logits.numpy(), labels.numpy())
    x = logits - logits.mean(1, keepdim=True)
    centred = LogisticRegression(C=1e6, tol=1e-10, max_iter=10_000).fit(x.numpy(), labels.numpy())
    np.testing.assert_allclose(ours.numpy(), centred.predict_proba(x.numpy()), atol=1e-4)
    assert mean_nll(ours.log(), labels) >= -plain.predict_log_proba(logits.numpy())[range(2000), labels].mean() - 1e-9


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 5), st.integers(0, 1000), st.sampled_from([0.1, 1.0, 100.0]), st.sampled_from([0.1, 1.0, 30.0]))
def test_the_fit_is_never_worse_than_the_temperature(classes: int, seed: int, strength: float, size: float) -> None:
    logits, labels = miscalibrated(40, classes, seed)
    logits = logits * size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaled = mean_nll(TemperatureScaling.fit(logits, labels)(logits), labels)
        vector = VectorScaling.fit(logits, labels, strength=strength)
        matrix = MatrixScaling.fit(logits, labels, strength=strength, off_diagonal=strength)
    if np.isfinite(scaled):
        assert mean_nll(vector(logits), labels) <= scaled + 1e-9
        assert mean_nll(matrix(logits), labels) <= scaled + 1e-9


@pytest.mark.parametrize("fit", [VectorScaling.fit, MatrixScaling.fit])
def test_the_chosen_strength_generalizes(fit: Fit) -> None:
    logits, labels = miscalibrated(2000, 4)
    scaling = fit(logits[:600], labels[:600])
    temperature = TemperatureScaling.fit(logits[:600], labels[:600])
    unseen, truth = logits[600:], labels[600:]
    assert mean_nll(scaling(unseen), truth) < mean_nll(temperature(unseen), truth) - 0.02


def test_the_chosen_strength_is_high_if_a_temperature_suffices() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(300, 5, dtype=torch.float64, generator=generator) * 2
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    scaling = MatrixScaling.fit(logits, labels)
    torch.testing.assert_close(scaling.weight, torch.eye(5, dtype=torch.float64), atol=0.15, rtol=0)
    assert float(scaling.bias.abs().max()) < 0.15


def test_the_scale_and_offset_of_the_logits_have_no_effect() -> None:
    logits, labels = miscalibrated(100, 3)
    expected = MatrixScaling.fit(logits, labels, strength=1.0, off_diagonal=4.0)(logits)
    for scale in (1.0, 1e-6, 1e6):
        found = MatrixScaling.fit(logits * scale + 5, labels, strength=1.0, off_diagonal=4.0)(logits * scale - 7)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("fit", [VectorScaling.fit, MatrixScaling.fit])
@pytest.mark.parametrize("wrong", [False, True])
def test_fits_to_right_or_wrong_predictions_only_are_finite(fit: Fit, wrong: bool) -> None:
    labels = torch.arange(30) % 3
    for size in (1.0, 1e30):
        logits = torch.eye(3, dtype=torch.float64)[(labels + wrong) % 3] * size
        with pytest.warns(UserWarning, match="Only regularisation keeps the fit finite") as caught:
            scaling = fit(logits, labels)
        assert caught[0].filename == __file__
        assert bool(scaling(logits).isfinite().all())
        assert mean_nll(scaling(logits), labels) <= mean_nll(logits / max(1, size / 100), labels) + 1e-9


@pytest.mark.parametrize("fit", [VectorScaling.fit, MatrixScaling.fit])
def test_missing_classes_give_a_warning(fit: Fit) -> None:
    cases = [
        ([0, 0, 1, 1, 0], "class 2 has no example"),
        ([1, 1, 1, 1, 1], r"2 of 3 classes \(0, 2\) have no example"),
        ([2], r"only 1 examples for 3 classes"),
    ]
    for labels, message in cases:
        logits = miscalibrated(len(labels) + 3, 3)[0][: len(labels)]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            scaling = fit(logits, torch.tensor(labels))
        assert any(re.search(message, str(warning.message)) for warning in caught)
        assert caught[0].filename == __file__
        assert bool(scaling(logits).isfinite().all())


def test_invalid_options() -> None:
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"strength": 0.0}, ValueError, r"strength must lie in \(0, inf\)"),
        ({"strength": -1.0}, ValueError, r"strength must lie in \(0, inf\)"),
        ({"strength": "1"}, TypeError, "strength must be a number"),
        ({"off_diagonal": float("nan")}, ValueError, "off_diagonal must lie in"),
        ({"on": "probs"}, ValueError, "on='probs' is unknown; choose one of logits, log_probs"),
    ]
    for options, error, message in cases:
        with pytest.raises(error, match=message):
            MatrixScaling.fit(*miscalibrated(10, 3), **options)


@pytest.mark.parametrize("fit", [VectorScaling.fit, MatrixScaling.fit])
def test_a_masked_class_does_not_reduce_precision(fit: Fit) -> None:
    logits, labels = miscalibrated(300, 3)
    masked = torch.nn.functional.pad(logits, (0, 1), value=-1e9)
    with pytest.warns(UserWarning, match="class 3 has no example"):
        scaling = fit(masked.float(), labels)
    found = scaling(masked.float())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double().softmax(1), scaling(masked).softmax(1), atol=1e-5, rtol=0)
    assert mean_nll(found, labels) <= mean_nll(logits, labels)
    message = r"within 1e\+11 temperatures of each other"
    with pytest.warns(UserWarning, match="class 3"), pytest.raises(ValueError, match=message):
        fit(torch.nn.functional.pad(logits.float(), (0, 1), value=torch.finfo(torch.float32).min), labels)
