"""Temperature scaling, fitted exactly."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

TEMPERATURE_BOUNDS = (1e-3, 1e3)
MAX_STEPS = 100


@dataclass(frozen=True)
class TemperatureScaling:
    """Divides logits by one temperature τ: softmax(z / τ). The predicted class stays what it was.

    >>> logits, labels = torch.tensor([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 0, 1])
    >>> scaling = TemperatureScaling.fit(logits, labels)
    >>> scaling(logits).softmax(1)[0]  # right two times out of three
    tensor([0.6667, 0.3333])
    """

    temperature: float

    @classmethod
    @torch.no_grad()
    def fit(cls, logits: Tensor, labels: Tensor) -> TemperatureScaling:
        """The τ that minimises the mean NLL of logits (N, C) against labels (N,), to float64 precision.

        The NLL is convex in the inverse temperature b = 1/τ. Newton's method finds its minimum in a few steps, and
        falls back to bisection whenever a step would leave the bracket known to hold it. Where all labels have the
        largest logit, or the logits are worse than none at all, no finite τ is best: the nearest bound is returned
        with a warning.
        """
        _check(logits, labels)
        margins = logits.double() - logits.double().gather(1, labels.long().unsqueeze(1))  # relative to the label's
        coldest, hottest = TEMPERATURE_BOUNDS
        low, high = 1 / hottest, 1 / coldest
        if _slope_and_curvature(margins, low)[0] >= 0:
            return cls._at_bound(hottest, "the logits predict the labels no better than chance")
        if _slope_and_curvature(margins, high)[0] <= 0:
            return cls._at_bound(coldest, "every label, or nearly so, has the largest logit")
        inverse = 1.0
        for _ in range(MAX_STEPS):
            slope, curvature = _slope_and_curvature(margins, inverse)
            low, high = (inverse, high) if slope < 0 else (low, inverse)
            step = inverse - slope / curvature if curvature > 0 else math.nan
            if abs(step - inverse) <= 1e-12 * inverse:
                break
            inverse = step if low < step < high else math.sqrt(low * high)
        return cls(1 / inverse)

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


def _slope_and_curvature(margins: Tensor, inverse: float) -> tuple[float, float]:
    """First and second derivative of the mean NLL in b: the mean and variance of the margins under softmax(b·z)."""
    probs = torch.softmax(margins * inverse, dim=1)
    mean = (probs * margins).sum(1)
    variance = (probs * (margins - mean.unsqueeze(1)).square()).sum(1)
    return float(mean.mean()), float(variance.mean())


def _check(logits: Tensor, labels: Tensor) -> None:
    if logits.ndim != 2 or 0 in logits.shape or not logits.is_floating_point():
        raise ValueError(f"logits must be floating point of shape (N, C), got {logits.dtype} {tuple(logits.shape)}")
    if labels.shape != logits.shape[:1] or labels.is_floating_point():
        raise ValueError(f"labels must be {len(logits)} integers, got {labels.dtype} of shape {tuple(labels.shape)}")
    if int(labels.min()) < 0 or int(labels.max()) >= logits.shape[1]:
        raise ValueError(
            f"labels must lie in [0, {logits.shape[1]}), got values from {int(labels.min())} to {int(labels.max())}"
        )
    if not bool(torch.isfinite(logits).all()):
        row = int((~torch.isfinite(logits)).any(1).int().argmax())
        raise ValueError(f"logits must be finite; row {row} is not")
