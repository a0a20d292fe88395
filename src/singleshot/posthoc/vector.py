"""Vector scaling: a scale and a bias for each class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from singleshot.posthoc.affine import Problem, features, first_temperature, solve, top_at_zero
from singleshot.posthoc.fitting import fitting_set, warn_of_missing_classes
from singleshot.posthoc.scaling import Scaling, check_classes
from singleshot.posthoc.storage import check_names, vector
from singleshot.posthoc.strength import OnExamples, check_strength, chosen_strength

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
