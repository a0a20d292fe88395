from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

import oracle
import singleshot as ss
from singleshot.uncertainty import MEASURES

MEASURE_NAMES = sorted(MEASURES)
SHAPES = [(5, 4, 3), (2, 1, 2), (3, 7, 100), (20, 2, 10)]


def random_logits(shape: tuple[int, ...], scale: float = 3.0, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * scale


@pytest.mark.parametrize("shape", SHAPES)
def test_mean_covariance_and_entropies_equal_the_oracle(shape: tuple[int, ...]) -> None:
    logits = random_logits(shape)
    array = logits.numpy()
    mean = oracle.softmax(array).mean(0)
    covariance = oracle.covariance(array)
    information = oracle.entropy(mean) - oracle.entropy(oracle.softmax(array)).mean(0)
    np.testing.assert_allclose(ss.predictive_mean(logits), mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(ss.predictive_covariance(logits, diagonal=False), covariance, rtol=0, atol=1e-10)
    np.testing.assert_allclose(
        ss.predictive_covariance(logits), np.diagonal(covariance, axis1=1, axis2=2), rtol=0, atol=1e-10
    )
    np.testing.assert_allclose(ss.predictive_entropy(logits), oracle.entropy(mean), rtol=0, atol=1e-10)
    np.testing.assert_allclose(ss.mutual_information(logits), information, rtol=0, atol=1e-10)


@pytest.mark.parametrize("measure", MEASURE_NAMES)
@pytest.mark.parametrize("shape", SHAPES)
def test_normalized_variance_equals_the_oracle(measure: str, shape: tuple[int, ...]) -> None:
    logits = random_logits(shape)
    np.testing.assert_allclose(
        ss.normalized_variance(logits, measure=measure), oracle.alpha(logits.numpy(), measure), rtol=0, atol=1e-10
    )


@given(
    st.integers(2, 8),
    st.integers(1, 5),
    st.integers(1, 12),
    st.sampled_from(MEASURE_NAMES),
    st.sampled_from([1e-6, 1.0, 30.0, 1e4]),
    st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.float16]),
    st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=300)
def test_alpha_lies_in_the_unit_interval_and_ignores_order(
    passes: int, examples: int, classes: int, measure: str, scale: float, dtype: torch.dtype, seed: int
) -> None:
    logits = random_logits((passes, examples, classes), scale, seed).to(dtype)
    alpha = ss.normalized_variance(logits, measure=measure)
    assert alpha.shape == (examples,)
    assert bool(((alpha >= 0) & (alpha <= 1)).all())
    generator = torch.Generator().manual_seed(seed)
    shuffled = logits[torch.randperm(passes, generator=generator)][..., torch.randperm(classes, generator=generator)]
    torch.testing.assert_close(ss.normalized_variance(shuffled, measure=measure), alpha, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("measure", MEASURE_NAMES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_alpha_vanishes_where_the_passes_agree(measure: str, dtype: torch.dtype) -> None:
    agreeing = random_logits((1, 6, 10)).to(dtype).expand(5, 6, 10)
    rounding = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
    tolerance = rounding if measure in ("bhattacharyya", "unbiased") else 20 * rounding  # the first two are its square
    assert float(ss.normalized_variance(agreeing, measure=measure).max()) < tolerance


@pytest.mark.parametrize("measure", MEASURE_NAMES)
def test_alpha_grows_with_disagreement(measure: str) -> None:
    direction = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]], dtype=torch.float64)
    values = [float(ss.normalized_variance(direction * scale, measure=measure)) for scale in (0.1, 0.5, 1.0, 4.0)]
    if measure == "confident_disagreement":  # symmetric passes average to uniform, which is sure of nothing
        assert max(values) < 1e-12
    else:
        assert values == sorted(values)
        assert values[-1] > 10 * values[0]


@pytest.mark.parametrize("measure", MEASURE_NAMES)
@pytest.mark.parametrize(
    ("dtype", "scale"), [(torch.float64, 1.7e308), (torch.float32, 1e30), (torch.float32, 3.4e38), (torch.float16, 6e4)]
)
def test_huge_logits_give_finite_values_and_gradients(measure: str, dtype: torch.dtype, scale: float) -> None:
    logits = (random_logits((5, 8, 4)).sign() * scale).to(dtype).requires_grad_()
    alpha = ss.normalized_variance(logits, measure=measure)
    (gradient,) = torch.autograd.grad(alpha.sum(), logits)
    assert bool(torch.isfinite(alpha).all())
    assert bool(torch.isfinite(gradient).all())
    for function in (ss.predictive_mean, ss.predictive_covariance, ss.predictive_entropy, ss.mutual_information):
        value = function(logits)
        assert bool(torch.isfinite(value).all())
        assert bool(torch.isfinite(torch.autograd.grad(value.sum(), logits)[0]).all())


@pytest.mark.parametrize("measure", MEASURE_NAMES)
def test_gradients_are_finite_where_passes_agree_and_probabilities_vanish(measure: str) -> None:
    logits = torch.tensor([[[0.0, -200.0, -500.0]]]).repeat(4, 1, 1).requires_grad_()
    (gradient,) = torch.autograd.grad(ss.normalized_variance(logits, measure=measure).sum(), logits)
    assert bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize("measure", MEASURE_NAMES)
def test_gradient_equals_finite_differences(measure: str) -> None:
    logits = random_logits((3, 2, 4), scale=1.0).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: ss.normalized_variance(z, measure=measure), logits)


def test_half_precision_is_worked_on_as_float32() -> None:
    logits = random_logits((5, 8, 10)).half()
    torch.testing.assert_close(ss.normalized_variance(logits), ss.normalized_variance(logits.float()), rtol=0, atol=0)


def test_one_class_is_certain() -> None:
    logits = random_logits((3, 4, 1))
    for measure in MEASURE_NAMES:
        assert ss.normalized_variance(logits, measure=measure).tolist() == [0.0] * 4
    assert ss.predictive_entropy(logits).tolist() == [0.0] * 4


def test_a_reading_of_ones_own() -> None:
    logits = random_logits((3, 4, 5))
    assert ss.normalized_variance(logits, measure=lambda log_probs: log_probs.exp().var(0).sum(-1)).shape == (4,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: ss.normalized_variance(torch.zeros(2, 3, 4), measure="tv"),
            "measure='tv' is unknown; choose .*bhattacharyya",
        ),
        (lambda: ss.normalized_variance(torch.zeros(1, 3, 4)), r"at least 2 stochastic passes.*\(1, 3, 4\)"),
        (lambda: ss.predictive_covariance(torch.zeros(1, 3, 4)), "at least 2 stochastic passes"),
        (lambda: ss.mutual_information(torch.zeros(1, 3, 4)), "at least 2 stochastic passes"),
        (lambda: ss.predictive_mean(torch.zeros(2, 0, 4)), "at least one example"),
        (lambda: ss.predictive_mean(np.zeros((2, 3, 4))), "torch tensor, got ndarray"),  # type: ignore[arg-type]
        (lambda: ss.normalized_variance(torch.tensor([[[0, math.nan]], [[1, 2.0]]])), "1 of 2 rows are invalid.*row 0"),
        (lambda: ss.predictive_entropy(torch.tensor([[[0, -math.inf], [0, 1.0]]])), "1 of 2 rows are invalid"),
        (
            lambda: ss.normalized_variance(torch.zeros(2, 3, 4), measure=lambda p: p.sum(-1)),
            r"\(3,\); this one returned shape \(2, 3\)",
        ),
        (lambda: ss.normalized_variance(torch.zeros(2, 3, 4), measure=lambda p: p[0, :, 0]), "must lie in .0, 1."),
        (lambda: ss.normalized_variance(torch.zeros(3, 4)), r"\(T, B, C\).*got \(3, 4\)"),
        (lambda: ss.predictive_mean(torch.zeros(0, 3, 4)), r"got shape \(0, 3, 4\)"),
        (lambda: ss.predictive_entropy(torch.zeros(2, 3, 4, dtype=torch.int64)), "floating point, got torch.int64"),
    ],
)
def test_bad_input_is_named(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_covariance_keeps_its_precision_under_autocast() -> None:
    logits = random_logits((5, 4, 6)).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        covariance = ss.predictive_covariance(logits, diagonal=False)
    assert covariance.dtype == torch.float32
    torch.testing.assert_close(covariance, ss.predictive_covariance(logits, diagonal=False))
