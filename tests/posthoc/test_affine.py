"""The solver of vector and matrix scaling: derivatives, and rows in chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from singleshot.posthoc import MatrixScaling
from singleshot.posthoc.affine_solver import Problem

LOGITS = torch.randn(100, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2
LABELS = torch.multinomial((LOGITS / 2).softmax(1), 1, generator=torch.Generator().manual_seed(1)).squeeze(1)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("on", ["logits", "log_probs"])
def test_derivatives_equal_finite_differences(full: bool, on: Any) -> None:
    problem = Problem(LOGITS[:30], LABELS[:30], 1.5, on, full=full, strength=2.0, off_diagonal=5.0)
    generator = np.random.default_rng(0)
    at, direction = generator.normal(size=(2, len(problem.prior))) / 2
    step = 1e-5
    (above, up), (below, down) = (problem.value_and_gradient(at + sign * step * direction) for sign in (1, -1))
    assert (above - below) / (2 * step) == pytest.approx(problem.value_and_gradient(at)[1] @ direction, rel=1e-7)
    np.testing.assert_allclose((up - down) / (2 * step), problem.hessian_product(at, direction), atol=1e-8)


def test_chunks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = MatrixScaling.fit(LOGITS, LABELS, strength=1.0, off_diagonal=1.0)
    monkeypatch.setattr("singleshot.posthoc.affine_solver.CHUNK", 24)
    monkeypatch.setattr("singleshot.posthoc.affine_solver.MAX_KEPT", 0)
    parts = MatrixScaling.fit(LOGITS, LABELS, strength=1.0, off_diagonal=1.0)
    torch.testing.assert_close(parts.weight, whole.weight, rtol=1e-8, atol=1e-9)
