"""Vector scaling, a scale and a bias for each class, and matrix scaling, a full matrix and a bias."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, get_args

import numpy as np
import torch
from torch import Tensor

from singleshot.common.checks import check_choice, check_range
from singleshot.posthoc.affine_solver import Inputs, choose_strength, diagonal_problem, features, solve
from singleshot.posthoc.scaling import Scaling, check_classes, to_output_dtype


class VectorScaling(Scaling):
    """Map logits z to s ∘ (z − mean z) + b, with a scale s_c and a bias b_c for each class.

    Subtracting the mean makes the result depend on softmax(z) only. The output is shifted so that its maximum is 0.
    Half precision gives float32.

    >>> logits, labels = torch.tensor([[2.0, 0.0]]).repeat(300, 1), torch.arange(300) % 3 // 2
    >>> VectorScaling.fit(logits, labels, strength=0.01)(logits).softmax(1)[0]  # right two times out of three
    tensor([0.6667, 0.3333])
    """

    method = "vector"
    fields: ClassVar[dict[str, Any]] = {"scale": list[float], "bias": list[float]}
    scale: Tensor  # (C,)
    bias: Tensor  # (C,)

    def __init__(self, scale: Any, bias: Any) -> None:
        super().__init__()
        self._register_float64(scale=scale, bias=bias)
        if self.scale.ndim != 1 or self.scale.shape != self.bias.shape or not len(self.scale):
            found = f"{tuple(self.scale.shape)} and {tuple(self.bias.shape)}"
            raise ValueError(f"scale and bias must both have shape (C,), got {found}")

    @classmethod
    @torch.no_grad()
    def fit(cls, logits: Tensor, labels: Tensor, *, strength: float | None = None) -> VectorScaling:
        """Fit scales and biases to logits (N, C) and labels (N,), regularised towards the best temperature τ.

        Minimises the mean NLL + strength/(2N) · (Σ_c (τ s_c − 1)² + Σ_c b_c²) to float64 precision. On these examples
        the NLL is never above that of TemperatureScaling, and the solution is finite even if all predictions are right,
        or all wrong. If ``strength`` is None, five-fold cross-validation on these examples chooses it.
        """
        problem = diagonal_problem(logits, labels, "logits", strength)
        correction, bias = problem.unpack(solve(problem))
        return cls((1 + correction) / problem.temperature, bias)

    def forward(self, logits: Tensor) -> Tensor:
        """Return logits (..., C) with each class scaled and shifted."""
        check_classes(logits, len(self.scale))
        inputs = features(logits.double(), "logits")
        return _shift_maximum_to_zero(inputs * self.scale.to(inputs) + self.bias.to(inputs), logits)


class MatrixScaling(Scaling):
    """Map logits z to W x + b, where x is z − mean z or, for Dirichlet calibration, log softmax(z).

    In both cases the result depends on softmax(z) only. The output is shifted so that its maximum is 0. Half precision
    gives float32.

    >>> logits, labels = torch.tensor([[2.0, 0.0]]).repeat(300, 1), torch.arange(300) % 3 // 2
    >>> MatrixScaling.fit(logits, labels, strength=0.01)(logits).softmax(1)[0]  # right two times out of three
    tensor([0.6667, 0.3333])
    """

    method = "matrix"
    fields: ClassVar[dict[str, Any]] = {"weight": list[list[float]], "bias": list[float], "on": Inputs}
    weight: Tensor  # (C, C)
    bias: Tensor  # (C,)

    def __init__(self, weight: Any, bias: Any, on: Inputs = "logits") -> None:
        super().__init__()
        check_choice("on", on, get_args(Inputs))
        self.on = on
        self._register_float64(weight=weight, bias=bias)
        if self.bias.ndim != 1 or self.weight.shape != 2 * self.bias.shape or not len(self.bias):
            found = f"{tuple(self.weight.shape)} and {tuple(self.bias.shape)}"
            raise ValueError(f"weight must have shape (C, C) and bias (C,), got {found}")

    @classmethod
    @torch.no_grad()
    def fit(
        cls,
        logits: Tensor,
        labels: Tensor,
        *,
        on: Inputs = "logits",
        strength: float | None = None,
        off_diagonal: float | None = None,
    ) -> MatrixScaling:
        """Fit a matrix and a bias to logits (N, C) and labels (N,), regularised towards the best temperature τ.

        With W = (I + D)/τ, minimises the mean NLL + strength/(2N) · (Σ_c D_cc² + Σ_c b_c²) + off_diagonal/(2N) ·
        Σ_{c≠k} D_ck² to float64 precision: off-diagonal and intercept regularisation, and of the diagonal too, so that
        the solution is finite even if all predictions are right, or all wrong. On these examples the NLL is never above
        that of TemperatureScaling. Strengths that are None are chosen by five-fold cross-validation on these examples,
        first ``strength`` and then ``off_diagonal``. A step takes time in proportion to N·C².
        """
        check_choice("on", on, get_args(Inputs))
        if off_diagonal is not None:
            check_range("off_diagonal", off_diagonal, "(0, inf)")
        diagonal = diagonal_problem(logits, labels, on, strength)
        problem = replace(diagonal, full=True, off_diagonal=off_diagonal or 1.0)
        if off_diagonal is None:
            problem = choose_strength(problem, "off_diagonal")
        scales, biases = np.split(solve(diagonal, exact=False), 2)
        correction, bias = problem.unpack(solve(problem, np.concatenate([np.diag(scales).ravel(), biases])))
        return cls((torch.eye(len(bias), dtype=torch.float64) + correction) / problem.temperature, bias, on)

    def forward(self, logits: Tensor) -> Tensor:
        """Return logits (..., C), each class a weighted sum of all."""
        check_classes(logits, len(self.bias))
        inputs = features(logits.double(), self.on)
        return _shift_maximum_to_zero(inputs @ self.weight.to(inputs).T + self.bias.to(inputs), logits)


def _shift_maximum_to_zero(scores: Tensor, logits: Tensor) -> Tensor:
    """Shift scores so that the largest is 0, where float32 has the most digits."""
    return to_output_dtype(scores - scores.amax(-1, keepdim=True), logits)
