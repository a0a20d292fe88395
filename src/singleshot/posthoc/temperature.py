"""Temperature scaling, fitted exactly."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from singleshot.checks import as_tensor, check_labels, check_logits

BOUND = 1e4  # where no temperature is best: how many times hotter or colder than the logits' own scale to stop
MAX_STEPS = 200


@dataclass(frozen=True)
class TemperatureScaling:
    """Divides logits by one temperature τ: softmax(z / τ). The predicted class stays what it was.

    >>> logits, labels = torch.tensor([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 0, 1])
    >>> scaling = TemperatureScaling.fit(logits, labels)
    >>> scaling(logits).softmax(1)[0]  # right two times out of three
    tensor([0.6667, 0.3333])
    """

    temperature: float

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature must be a finite number above 0, got {self.temperature}")

    @classmethod
    @torch.no_grad()
    def fit(cls, logits: Tensor, labels: Tensor) -> TemperatureScaling:
        """The τ that minimises the mean NLL of logits (N, C) against labels (N,), to float64 precision.

        The NLL is convex in the inverse temperature b = 1/τ, so a root of its slope is found: by Newton's method, or by
        halving the bracket that holds the root wherever Newton would do worse. Where all labels have the largest
        logit, or the logits are no better than chance, no finite τ > 0 is best: a bound is returned with a warning.
        """
        logits, labels = as_tensor(logits, "logits"), as_tensor(labels, "labels")
        check_logits(logits, ("(N, C)",))
        labels = check_labels(labels, *logits.shape)
        scale = float(logits.abs().max()) or 1.0
        scaled = logits.double() / scale
        margins = scaled - scaled.gather(1, labels.unsqueeze(1))  # relative to the label's own logit
        if float(margins.max()) <= 0:
            return cls._at_bound(scale / BOUND, "every label has the largest logit, so colder is always better")
        if float(margins.mean(1).mean()) >= 0:  # the slope at b = 0, where the softmax is uniform
            return cls._at_bound(scale * BOUND, "the logits are no better than chance, so hotter is always better")
        return cls(scale / _root_of_slope(margins))

    def __call__(self, logits: Tensor) -> Tensor:
        """Logits of any shape, divided by the temperature."""
        return logits / self.temperature

    @classmethod
    def _at_bound(cls, temperature: float, why: str) -> TemperatureScaling:
        warnings.warn(
            f"no finite temperature is best here: {why}. Using the bound {temperature:g}; more data, with both right "
            "and wrong predictions, would give a real fit.",
            stacklevel=4,
        )
        return cls(temperature)


def _root_of_slope(margins: Tensor) -> float:
    """The b > 0 at which the slope, negative at 0 and increasing, is 0."""
    low, high = 0.0, 1.0
    while _slope_and_curvature(margins, high)[0] < 0:
        low, high = high, 2 * high
    inverse = high
    for _ in range(MAX_STEPS):
        slope, curvature = _slope_and_curvature(margins, inverse)
        low, high = (inverse, high) if slope < 0 else (low, inverse)
        step = inverse - slope / curvature if curvature > 0 else math.nan
        if abs(step - inverse) <= 1e-13 * inverse or high - low <= 1e-15 * high:
            return step if low <= step <= high else inverse
        # A Newton step that stays in the bracket but hardly moves would crawl: halving is never that slow.
        inside = low < step < high and abs(step - inverse) < (high - low) / 2
        inverse = step if inside else (low + high) / 2
    raise RuntimeError(f"the temperature did not converge in {MAX_STEPS} steps: 1/τ is between {low:g} and {high:g}")


def _slope_and_curvature(margins: Tensor, inverse: float) -> tuple[float, float]:
    """First and second derivative of the mean NLL in b: the mean and variance of the margins under softmax(b·z)."""
    probs = torch.softmax(margins * inverse, dim=1)
    mean = (probs * margins).sum(1)
    variance = (probs * (margins - mean.unsqueeze(1)).square()).sum(1)
    return float(mean.mean()), float(variance.mean())
