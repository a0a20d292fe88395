"""Vector scaling: a scale and a bias for each class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from singleshot.common.checks import check_choice
from singleshot.posthoc.affine import (
    Array,
    Inputs,
    OnExamples,
    Problem,
    check_strength,
    chosen_strength,
    features,
    first_temperature,
    solve,
    top_at_zero,
)
from singleshot.posthoc.scaling import Scaling, check_classes, fitting_set, warn_of_missing_classes
from singleshot.posthoc.storage import check_names, matrix, vector

MISSING = "their scale and bias are only a guess that makes them less likely"


@dataclass(frozen=True, eq=False)
class VectorScaling(Scaling):
    """Maps logits z to s ∘ (z − mean z) + b: one scale s_c and one bias b_c for each class.

    Taking the mean away makes the result depend on softmax(z) alone. A constant for all classes then puts the largest
    at 0. Half precision comes back as float32.

    >>> logits, labels = torch.tensor([[2.0, 0.0]]).repeat(300, 1), torch.arange(300) % 3 // 2
    >>> VectorScaling.fit(logits, labels, strength=0.01)(logits).softmax(1)[0]  # right two times out of three
    tensor([0.6667, 0.3333])
    """

    method: ClassVar[str] = "vector"

    scale: Tensor  # (C,)
    bias: Tensor  # (C,)

    def __post_init__(self) -> None:
        if self.scale.ndim != 1 or self.scale.shape != self.bias.shape:
            raise ValueError(
                f"scale and bias must both have shape (C,), got {tuple(self.scale.shape)} and {tuple(self.bias.shape)}"
            )

    @classmethod
    @torch.no_grad()
    def fit(cls, logits: Tensor, labels: Tensor, *, strength: float | None = None) -> VectorScaling:
        """The most probable scales and biases for logits (N, C) and labels (N,), around the best temperature τ.

        Minimises the mean NLL + strength/(2N) · (Σ_c (τ s_c − 1)² + Σ_c b_c²), to float64 precision: on these examples
        the NLL is never above that of TemperatureScaling, and the answer is finite even where all predictions are
        right, or all wrong. Without a ``strength``, five-fold cross-validation on these examples chooses it.
        """
        check_strength("strength", strength)
        logits, labels = fitting_set(logits, labels)
        warn_of_missing_classes(labels, logits.shape[1], MISSING)
        temperature = first_temperature(logits, labels)
        if strength is None:
            strength = best_vector_strength(logits, labels, temperature)
        problem = Problem(logits, labels, temperature, "logits", full=False, strength=strength)
        correction, bias = problem.unpacked(solve(problem, np.zeros(2 * logits.shape[1])))
        return cls((1 + correction) / temperature, bias.clone())

    def __call__(self, logits: Tensor) -> Tensor:
        """Logits (..., C) with each class scaled and shifted."""
        check_classes(logits, len(self.scale))
        centred = features(logits.double(), "logits")
        return top_at_zero(centred * self.scale.to(centred) + self.bias.to(centred), logits)

    def parameters(self) -> dict[str, object]:
        """Scale and bias."""
        return {"scale": self.scale.tolist(), "bias": self.bias.tolist()}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> VectorScaling:
        """From a file's content."""
        check_names(parameters, ("scale", "bias"))
        scale = vector(parameters, "scale")
        return cls(scale, vector(parameters, "bias", len(scale)))


def best_vector_strength(logits: Tensor, labels: Tensor, temperature: float) -> float:
    """The strength that cross-validation prefers for a scale and bias per class of centred logits."""

    def with_strength(strength: float) -> OnExamples:
        return lambda logits, labels: Problem(logits, labels, temperature, "logits", full=False, strength=strength)

    return chosen_strength(logits, labels, with_strength)


ON = ("logits", "log_probs")


@dataclass(frozen=True, eq=False)
class MatrixScaling(Scaling):
    """Maps logits z to W x + b, where x is z − mean z or, for Dirichlet calibration, log softmax(z).

    Either way the result depends on softmax(z) alone. A constant for all classes then puts the largest at 0. Half
    precision comes back as float32.

    >>> logits, labels = torch.tensor([[2.0, 0.0]]).repeat(300, 1), torch.arange(300) % 3 // 2
    >>> MatrixScaling.fit(logits, labels, strength=0.01)(logits).softmax(1)[0]  # right two times out of three
    tensor([0.6667, 0.3333])
    """

    method: ClassVar[str] = "matrix"

    weight: Tensor  # (C, C)
    bias: Tensor  # (C,)
    on: Inputs = "logits"

    def __post_init__(self) -> None:
        check_choice("on", self.on, ON)
        classes = len(self.bias)
        if self.weight.shape != (classes, classes) or self.bias.ndim != 1:
            raise ValueError(
                f"weight must have shape (C, C) and bias (C,), got {tuple(self.weight.shape)} and "
                f"{tuple(self.bias.shape)}"
            )

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
        """The most probable matrix and bias for logits (N, C) and labels (N,), around the best temperature τ.

        With W = (I + D)/τ, minimises the mean NLL + strength/(2N) · (Σ_c D_cc² + Σ_c b_c²) + off_diagonal/(2N) ·
        Σ_{c≠k} D_ck², to float64 precision: off-diagonal and intercept regularisation, with the diagonal held as well,
        so that the answer is finite even where all predictions are right, or all wrong. On these examples the NLL is
        never above that of TemperatureScaling. What is not given is chosen by five-fold cross-validation on these
        examples, first the strength and then the off-diagonal one. A step takes time in proportion to N·C².
        """
        check_choice("on", on, ON)
        check_strength("strength", strength)
        check_strength("off_diagonal", off_diagonal)
        logits, labels = fitting_set(logits, labels)
        classes = logits.shape[1]
        warn_of_missing_classes(labels, classes, MISSING)
        temperature = first_temperature(logits, labels)

        def diagonal(strength: float) -> OnExamples:
            return lambda logits, labels: Problem(logits, labels, temperature, on, full=False, strength=strength)

        own = chosen_strength(logits, labels, diagonal) if strength is None else strength

        def full(off_diagonal: float) -> OnExamples:
            return lambda logits, labels: Problem(
                logits, labels, temperature, on, full=True, strength=own, off_diagonal=off_diagonal
            )

        other = chosen_strength(logits, labels, full) if off_diagonal is None else off_diagonal
        nearby = solve(diagonal(own)(logits, labels), np.zeros(2 * classes), exactly=False)
        problem = full(other)(logits, labels)
        correction, bias = problem.unpacked(solve(problem, _as_full(nearby)))
        return cls((torch.eye(classes, dtype=torch.float64) + correction) / temperature, bias.clone(), on)

    def __call__(self, logits: Tensor) -> Tensor:
        """Logits (..., C), each class a weighted sum of all."""
        check_classes(logits, len(self.bias))
        inputs = features(logits.double(), self.on)
        return top_at_zero(inputs @ self.weight.to(inputs).T + self.bias.to(inputs), logits)

    def parameters(self) -> dict[str, object]:
        """Weight, bias and what they apply to."""
        return {"weight": self.weight.tolist(), "bias": self.bias.tolist(), "on": self.on}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> MatrixScaling:
        """From a file's content."""
        check_names(parameters, ("weight", "bias", "on"))
        bias = vector(parameters, "bias")
        check_choice("on", parameters["on"], ON)
        return cls(matrix(parameters, "weight", len(bias)), bias, cast(Inputs, parameters["on"]))


def _as_full(diagonal_parameters: Array) -> Array:
    """A scale and bias per class as the parameters of a matrix."""
    correction, bias = np.split(diagonal_parameters, 2)
    return np.concatenate([np.diag(correction).ravel(), bias])
