"""The exact temperature against a bracketing root finder and scikit-learn."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.optimize import brentq
from torch import Tensor

import oracle
import singleshot as ss


def calibrated(examples: int, classes: int, temperature: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Labels drawn from softmax(z); the logits handed out are z times the temperature."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(examples, classes, dtype=torch.float64, generator=generator) * 2
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    return logits * temperature, labels


def oracle_temperature(logits: oracle.Array, labels: oracle.Labels, around: float) -> float:
    """The root of the slope of the mean NLL in 1/τ, by a bracketing root finder."""
    rows = np.arange(len(labels))

    def slope(inverse: float) -> float:
        return float(((oracle.softmax(logits * inverse) * logits).sum(1) - logits[rows, labels]).mean())

    return 1 / float(brentq(slope, 0.1 / around, 10 / around, xtol=1e-16 / around, rtol=1e-14))


@pytest.mark.parametrize("temperature", [1e-6, 0.05, 0.3, 1.0, 2.5, 7.0, 50.0, 5000.0])
def test_temperature_equals_the_oracle(temperature: float) -> None:
    logits, labels = calibrated(500, 8, temperature)
    for dtype in (torch.float64, torch.float32):
        rounded = logits.to(dtype)
        expected = oracle_temperature(rounded.double().numpy(), labels.numpy(), temperature)
        assert ss.TemperatureScaling.fit(rounded, labels).temperature == pytest.approx(expected, rel=1e-10), dtype
        assert expected == pytest.approx(temperature, rel=0.2)


def test_newton_falls_back_to_bisection() -> None:
    """One margin sets the scale and another, sixty orders smaller, the optimum."""
    logits = torch.tensor([[1.0, 0.0], [0.0, 1e-60]], dtype=torch.float64)
    inverse = 1 / ss.TemperatureScaling.fit(logits, torch.tensor([0, 0])).temperature
    assert 1 / (1 + np.exp(inverse)) == pytest.approx(1e-60 / 2, rel=1e-9)  # both slopes cancel


@pytest.mark.parametrize("mask", [-1e9, np.finfo(np.float32).min, -1e300, np.finfo(np.float64).min])
def test_a_masked_class_has_no_effect(mask: float) -> None:
    for temperature in (1e-6, 0.05, 1.0, 50.0):
        logits, labels = calibrated(500, 8, temperature)
        masked = torch.nn.functional.pad(logits, (0, 1), value=float(mask))
        expected = ss.TemperatureScaling.fit(logits, labels).temperature
        assert ss.TemperatureScaling.fit(masked, labels).temperature == pytest.approx(expected, rel=1e-9), temperature
    separable = torch.tensor([[1.0, 0.0, mask]], dtype=torch.float64)
    with pytest.warns(UserWarning, match="a lower temperature is always better"):
        assert ss.TemperatureScaling.fit(separable, torch.tensor([0])).temperature == pytest.approx(1e-4)


def test_a_huge_class_that_is_sometimes_right_sets_the_temperature() -> None:
    logits, _ = calibrated(400, 8, 1.0)
    for size in (1e9, 3e38, 1e300):
        huge, labels = torch.nn.functional.pad(logits, (0, 1), value=size), torch.arange(400) % 4 * 2 + 2
        expected = size / np.log(8 * 0.25 / 0.75)  # correct in one of four cases, against eight equal logits
        assert ss.TemperatureScaling.fit(huge, labels).temperature == pytest.approx(expected, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 30), st.integers(0, 10_000), st.floats(0, 30), st.booleans())
def test_nearly_separable_logits_with_a_class_far_down_are_solved(
    examples: int, seed: int, decades: float, below: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(examples) % 3
    logits = torch.eye(3, dtype=torch.float64)[labels] * 10
    logits += torch.randn(examples, 3, dtype=torch.float64, generator=generator)
    logits[0, 0] = logits[0].amax() - 10 ** -(decades / 2) - 20
    logits[:, 2] -= 10**decades * (1 if below else -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaled = ss.TemperatureScaling.fit(logits, labels)(logits)
    before, after = (float(torch.nn.functional.cross_entropy(z, labels)) for z in (logits, scaled))
    assert after <= before * (1 + 1e-12) + 1e-3


def test_temperature_agrees_with_scikit_learn() -> None:
    pytest.importorskip("sklearn", "1.8", reason="needs scikit-learn 1.8, which has temperature scaling")
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LogisticRegression

    logits, labels = calibrated(500, 4, 2.5)
    model = LogisticRegression().fit(logits.numpy(), labels.numpy())
    model.coef_, model.intercept_ = np.eye(4), np.zeros(4)  # its scores are the logits
    peer = CalibratedClassifierCV(FrozenEstimator(model), method="temperature", cv=2, ensemble=False)
    expected = peer.fit(logits.numpy(), labels.numpy()).predict_proba(logits.numpy())
    found = ss.TemperatureScaling.fit(logits, labels)(logits).softmax(1)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)


def test_scaling_keeps_the_prediction_and_divides() -> None:
    logits, labels = calibrated(200, 5, 3.0)
    scaling = ss.TemperatureScaling.fit(logits.numpy(), labels.numpy())  # type: ignore[arg-type]
    torch.testing.assert_close(scaling(logits), logits / scaling.temperature)
    assert torch.equal(scaling(logits).argmax(1), logits.argmax(1))


@pytest.mark.parametrize(("label", "bound", "reason"), [(0, 1e-4, "largest logit"), (1, 1e4, "no better than chance")])
def test_without_a_finite_optimum_a_bound_is_returned_with_a_warning(label: int, bound: float, reason: str) -> None:
    for scale in (1.0, 1e-9, 1e300):
        logits = torch.tensor([[1.0, 0.0], [0.5, 0.0]], dtype=torch.float64) * scale
        with pytest.warns(UserWarning, match=f"no finite temperature minimises the NLL: .*{reason}") as caught:
            scaling = ss.TemperatureScaling.fit(logits, torch.tensor([label, label]))
        assert caught[0].filename == __file__
        assert scaling.temperature == pytest.approx(bound * scale)


def test_chunks_and_samples_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, labels = calibrated(2000, 8, 3.0)
    expected = oracle_temperature(logits.numpy(), labels.numpy(), 3.0)
    monkeypatch.setattr("singleshot.posthoc.temperature.LARGE", 1000)  # 16,000 numbers, then 1,000, then 64
    for chunk in (8, 64, 4096):
        monkeypatch.setattr("singleshot.posthoc.temperature.CHUNK", chunk)
        assert ss.TemperatureScaling.fit(logits, labels).temperature == pytest.approx(expected, rel=1e-12), chunk


@pytest.mark.parametrize("label", [0, 1])
def test_a_sample_without_an_optimum_does_not_change_the_result(label: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row in 16 is all right or all wrong; the whole set is neither."""
    monkeypatch.setattr("singleshot.posthoc.temperature.LARGE", 1)
    logits = torch.tensor([[3.0, 0.0]], dtype=torch.float64).repeat(64, 1)
    labels = (torch.arange(64) % 4 == 1).long()
    labels[::16] = label
    right = 1 - float(labels.double().mean())
    expected = 3 / np.log(right / (1 - right))
    assert ss.TemperatureScaling.fit(logits, labels).temperature == pytest.approx(expected, rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 20), st.integers(2, 5), st.integers(0, 10_000), st.sampled_from([1e-8, 1.0, 1e8]))
def test_the_fit_is_never_worse_than_no_fit(examples: int, classes: int, seed: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(examples, classes, dtype=torch.float64, generator=generator) * scale
    labels = torch.randint(0, classes, (examples,), generator=generator)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scaled = ss.TemperatureScaling.fit(logits, labels)(logits)
    assert torch.equal(scaled.argmax(1), logits.argmax(1))
    before, after = (float(torch.nn.functional.cross_entropy(z, labels)) for z in (logits, scaled))
    assert after <= before * (1 + 1e-12) + (1e-3 if caught else 0)  # a bound is nearly as good as the limit


@pytest.mark.parametrize("rows", [torch.zeros(6, 3), torch.arange(6.0)[:, None].expand(6, 3), torch.zeros(6, 1)])
def test_where_every_temperature_is_equally_good_it_is_one(rows: Tensor) -> None:
    labels = torch.arange(6) % rows.shape[1]
    assert ss.TemperatureScaling.fit(rows, labels).temperature == 1.0
    assert ss.TemperatureScaling.fit(rows.repeat(2**17, 1), labels.repeat(2**17)).temperature == 1.0


def test_a_few_rows_with_a_preference_decide_among_constant_ones() -> None:
    logits = torch.cat([torch.zeros(60, 2), torch.tensor([[2.0, 0.0]] * 3)])
    labels = torch.tensor([0, 1] * 30 + [0, 0, 1])
    found = ss.TemperatureScaling.fit(logits, labels).temperature
    assert found == pytest.approx(2 / math.log(2), rel=1e-12)  # confidence 2/3 where the logits differ


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scaled_logits_that_overflow_are_refused(dtype: torch.dtype) -> None:
    logits = torch.tensor([[1e30, -1.0]], dtype=dtype)
    with pytest.raises(ValueError, match="gives logits that are not finite"):
        ss.TemperatureScaling(1e-300)(logits)
    with pytest.raises(ValueError, match="gives logits that are not finite"):
        ss.VectorScaling([1e300, 1e300], [0.0, 0.0])(logits)
    masked = torch.tensor([[1.0, -math.inf]], dtype=dtype)
    assert ss.TemperatureScaling(2.0)(masked).tolist() == [[0.5, -math.inf]]  # as the caller gave it
