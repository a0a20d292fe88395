from __future__ import annotations

import functools
import math
from collections.abc import Callable

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
def test_normalized_variance_equals_the_oracle(measure: str) -> None:
    for shape in SHAPES:
        logits = random_logits(shape)
        alpha, expected = ss.normalized_variance(logits, measure=measure), oracle.alpha(logits.numpy(), measure)
        np.testing.assert_allclose(alpha, expected, rtol=0, atol=1e-10)


@given(
    st.integers(2, 8),
    st.integers(1, 5),
    st.integers(2, 12),
    st.sampled_from(MEASURE_NAMES),
    st.sampled_from([1e-6, 1.0, 30.0, 1e4]),
    st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.float16]),
    st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=150)
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
def test_alpha_is_zero_if_the_passes_agree_and_grows_with_disagreement(measure: str) -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        agreeing = random_logits((1, 6, 10)).to(dtype).expand(5, 6, 10)
        rounding = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
        tolerance = rounding if measure in ("bhattacharyya", "unbiased") else 20 * rounding  # these are squared
        assert float(ss.normalized_variance(agreeing, measure=measure).max()) < tolerance
    direction = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]], dtype=torch.float64)
    values = [float(ss.normalized_variance(direction * scale, measure=measure)) for scale in (0.1, 0.5, 1.0, 4.0)]
    if measure == "confident_disagreement":  # the mean of symmetric passes is uniform
        assert max(values) < 1e-12
    else:
        assert values == sorted(values)
        assert values[-1] > 10 * values[0]


@pytest.mark.parametrize(
    ("dtype", "scale"), [(torch.float64, 1.7e308), (torch.float32, 1e30), (torch.float32, 3.4e38), (torch.float16, 6e4)]
)
def test_huge_logits_give_finite_values_and_gradients(dtype: torch.dtype, scale: float) -> None:
    logits = (random_logits((5, 8, 4)).sign() * scale).to(dtype).requires_grad_()
    functions: list[Callable[[Tensor], Tensor]] = [ss.predictive_mean, ss.predictive_covariance]
    functions += [ss.predictive_entropy, ss.mutual_information]
    functions += [functools.partial(ss.normalized_variance, measure=measure) for measure in MEASURE_NAMES]
    for function in functions:
        value = function(logits)
        assert bool(torch.isfinite(value).all()), function
        assert bool(torch.isfinite(torch.autograd.grad(value.sum(), logits)[0]).all()), function


@pytest.mark.parametrize("measure", MEASURE_NAMES)
def test_gradients_are_exact_and_finite_if_passes_agree_and_probabilities_vanish(measure: str) -> None:
    agreeing = torch.tensor([[[0.0, -200.0, -500.0]]]).repeat(4, 1, 1).requires_grad_()
    (gradient,) = torch.autograd.grad(ss.normalized_variance(agreeing, measure=measure).sum(), agreeing)
    assert bool(torch.isfinite(gradient).all())
    logits = random_logits((3, 2, 4), scale=1.0).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: ss.normalized_variance(z, measure=measure), logits)


def test_half_precision_is_converted_to_float32() -> None:
    logits = random_logits((5, 8, 10)).half()
    torch.testing.assert_close(ss.normalized_variance(logits), ss.normalized_variance(logits.float()), rtol=0, atol=0)


def test_a_custom_measure() -> None:
    logits = random_logits((3, 4, 5))
    assert ss.normalized_variance(logits, measure=lambda log_probs: log_probs.exp().var(0).sum(-1)).shape == (4,)


def test_invalid_input_is_named() -> None:
    invalid: list[tuple[Callable[[], object], str]] = [
        (
            lambda: ss.normalized_variance(torch.zeros(2, 3, 4), measure="tv"),
            "measure='tv' is unknown; choose .*bhattacharyya",
        ),
        (lambda: ss.normalized_variance(torch.zeros(1, 3, 4)), r"at least 2 stochastic passes.*\(1, 3, 4\)"),
        (lambda: ss.predictive_covariance(torch.zeros(1, 3, 4)), "at least 2 stochastic passes"),
        (lambda: ss.mutual_information(torch.zeros(1, 3, 4)), "at least 2 stochastic passes"),
        (lambda: ss.predictive_mean(torch.zeros(2, 0, 4)), "at least one example"),
        (lambda: ss.normalized_variance(torch.tensor([[[0, math.nan]], [[1, 2.0]]])), "1 of 2 rows are invalid.*row 0"),
        (lambda: ss.predictive_entropy(torch.tensor([[[0, -math.inf], [0, 1.0]]])), "1 of 2 rows are invalid"),
        (
            lambda: ss.normalized_variance(torch.zeros(2, 3, 4), measure=lambda p: p.sum(-1)),
            r"\(3,\); this one returned shape \(2, 3\)",
        ),
        (lambda: ss.normalized_variance(torch.zeros(2, 3, 4), measure=lambda p: p[0, :, 0]), "must lie in .0, 1."),
        (lambda: ss.normalized_variance(torch.zeros(3, 4)), r"\(T, B, C\).*got \(3, 4\)"),
        (lambda: ss.predictive_mean(torch.zeros(0, 3, 4)), r"got shape \(0, 3, 4\)"),
    ]
    for call, message in invalid:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="torch tensor, got ndarray"):
        ss.predictive_mean(np.zeros((2, 3, 4)))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be floating point"):
        ss.predictive_entropy(torch.zeros(2, 3, 4, dtype=torch.int64))
    with pytest.raises(TypeError, match="measure=3 is unknown"):
        ss.normalized_variance(torch.zeros(2, 3, 4), measure=3)  # type: ignore[arg-type]


def test_covariance_keeps_its_precision_under_autocast() -> None:
    logits = random_logits((5, 4, 6)).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        covariance = ss.predictive_covariance(logits, diagonal=False)
    assert covariance.dtype == torch.float32
    torch.testing.assert_close(covariance, ss.predictive_covariance(logits, diagonal=False))
