"""The temperature with the least NLL, as the root of a slope that only increases.

With b = 1/τ and margins m_c = z_c − z_y, the NLL of one example is log Σ_c exp(b·m_c). Its slope in b is the mean of m
under softmax(b·z), its curvature the variance: the NLL is convex in b, and one root is all there is to find. Rows are
worked on in float64, a cache-sized chunk at a time: the data is never copied whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

BOUND = 1e4  # where no temperature is best: how many times hotter or colder than the logits' own scale to stop
MAX_STEPS = 200
CHUNK = 2**17  # numbers worked on at once: 1 MB in float64 stays in the cache, and is enough to keep it busy
LARGE = 2**18  # numbers from which on the search begins with a sample of one row in 16


@dataclass(frozen=True)
class NoFiniteTemperature:
    """Why the NLL falls for ever as the temperature goes to 0 or infinity, and where to stop instead."""

    bound: float
    why: str


def best_temperature(logits: Tensor, labels: Tensor) -> float | NoFiniteTemperature:
    """The τ of least mean NLL for checked logits (N, C) and labels (N,), right to about 1e-13 of itself."""
    scale = float(torch.maximum(logits.amax(), -logits.amin())) or 1.0
    slope, largest = 0.0, -math.inf
    for margins in _margins(logits, labels, scale):
        slope += float(margins.mean(1).sum())  # at b = 0, where the softmax is uniform
        largest = max(largest, float(margins.max()))
    if largest <= 0:
        return NoFiniteTemperature(scale / BOUND, "every label has the largest logit, so colder is always better")
    if slope >= 0:
        return NoFiniteTemperature(scale * BOUND, "the logits are no better than chance, so hotter is always better")
    return scale / _root_of_slope(logits, labels, scale, _first_guess(logits, labels, scale))


def _first_guess(logits: Tensor, labels: Tensor, scale: float) -> float:
    """The answer for an evenly spaced sample of a large set: it is nearly right, and saves steps over the whole."""
    if logits.numel() >= LARGE:
        sample = best_temperature(logits[::16], labels[::16])
        if not isinstance(sample, NoFiniteTemperature):
            return scale / sample
    return 1.0


def _root_of_slope(logits: Tensor, labels: Tensor, scale: float, inverse: float) -> float:
    """The b > 0 at which the slope, negative at 0 and increasing, is 0; the search begins at ``inverse``."""
    low, high = 0.0, math.inf
    reach, last_slope, last_step = 1.0, math.inf, 0.0
    for _ in range(MAX_STEPS):
        slope, curvature = _slope_and_curvature(logits, labels, scale, inverse)
        low, high = (inverse, high) if slope < 0 else (low, inverse)
        newton = inverse - slope / curvature if curvature > 0 else math.nan
        step = abs(newton - inverse)
        # Newton squares its error each time, so two of its steps foretell the third: no pass only to see that.
        foretold = step * (step / last_step) ** 2 if last_step else math.inf
        if step <= 1e-13 * inverse or foretold <= 1e-16 * inverse or low >= (1 - 1e-15) * high:
            return newton if low <= newton <= high else inverse
        if math.isinf(high):
            # Still left of the root. Newton is trusted while it closes in; where it crawls, strides get ever longer.
            reach = 1.0 if abs(slope) < 0.1 * abs(last_slope) else 2 * reach
            stride = reach * (newton - inverse)
            inverse = inverse + stride if 0 < stride < inverse * reach else 2 * inverse
        else:
            # A Newton step that stays in the bracket but hardly moves would crawl: halving is never that slow.
            inside = low < newton < high and abs(newton - inverse) < (high - low) / 2
            inverse = newton if inside else (low + high) / 2
        last_slope, last_step = slope, step if inverse == newton else 0.0
    raise RuntimeError(f"the temperature did not converge in {MAX_STEPS} steps: 1/τ is between {low:g} and {high:g}")


def _slope_and_curvature(logits: Tensor, labels: Tensor, scale: float, inverse: float) -> tuple[float, float]:
    """First and second derivative of the mean NLL in b: the mean and variance of the margins under softmax(b·z)."""
    slope, curvature = 0.0, 0.0
    for margins in _margins(logits, labels, scale):
        probs = torch.softmax(margins * inverse, dim=1)
        mean = (probs * margins).sum(1, keepdim=True)
        slope += float(mean.sum())
        curvature += float(margins.sub_(mean).square_().mul_(probs).sum())
    return slope / len(labels), curvature / len(labels)


def _margins(logits: Tensor, labels: Tensor, scale: float) -> Iterator[Tensor]:
    """Logits in units of the scale, relative to the label's: exactly 0 there, so that a sure row loses no digits."""
    rows = max(1, CHUNK // logits.shape[1])
    for part, label in zip(torch.split(logits, rows), torch.split(labels, rows), strict=True):
        margins = part.double() / scale
        yield margins.sub_(margins.gather(1, label.unsqueeze(1)))
