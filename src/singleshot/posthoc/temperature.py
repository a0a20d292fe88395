"""Temperature scaling, fitted exactly."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from singleshot.posthoc.fitting import fitting_set
from singleshot.posthoc.inverse_temperature import NoFiniteTemperature, best_temperature
from singleshot.posthoc.scaling import Scaling
from singleshot.posthoc.storage import check_names, number

SMALLEST = sys.float_info.min  # smaller ones have few digits, and then no finite inverse


@dataclass(frozen=True)
class TemperatureScaling(Scaling):
    """Divides logits by one temperature τ: softmax(z / τ). The predicted class stays what it was.

    >>> logits, labels = torch.tensor([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 0, 1])
    >>> scaling = TemperatureScaling.fit(logits, labels)
    >>> scaling(logits).softmax(1)[0]  # right two times out of three
    tensor([0.6667, 0.3333])
    """

    method: ClassVar[str] = "temperature"

    temperature: float

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature must be a finite number above 0, got {self.temperature}")
        if self.temperature < SMALLEST:
            raise ValueError(
                f"temperature must be at least {SMALLEST:g}, got {self.temperature}: dividing by it is past any number"
            )

    @classmethod
    @torch.no_grad()
    def fit(cls, logits: Tensor, labels: Tensor) -> TemperatureScaling:
        """The τ that minimises the mean NLL of logits (N, C) against labels (N,), to float64 precision.

        The NLL is convex in the inverse temperature b = 1/τ, so a root of its slope is found: by Newton's method, or by
        halving the bracket that holds the root wherever Newton would do worse. Where all labels have the largest
        logit, or the logits are no better than chance, no finite τ > 0 is best: a bound is returned with a warning.
        """
        best = best_temperature(*fitting_set(logits, labels))
        if isinstance(best, NoFiniteTemperature):
            warnings.warn(
                f"no finite temperature is best here: {best.why}. Using the bound {best.bound:g}; more data, with both "
                "right and wrong predictions, would give a real fit.",
                stacklevel=3,
            )
            return cls(best.bound)
        return cls(best)

    def __call__(self, logits: Tensor) -> Tensor:
        """Logits of any shape, divided by the temperature."""
        return logits / self.temperature

    def parameters(self) -> dict[str, object]:
        """The temperature."""
        return {"temperature": float(self.temperature)}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> TemperatureScaling:
        """From a file's content."""
        check_names(parameters, ("temperature",))
        return cls(number(parameters, "temperature"))
