"""The temperature with the least NLL, as the root of a slope that only increases.

With b = 1/τ and margins m_c = z_c − z_y, the NLL of one example is log Σ_c exp(b·m_c). Its slope in b is the mean of m
under softmax(b·z), its curvature the variance: the NLL is convex in b, and one root is all there is to find. Rows are
worked on in float64, a cache-sized chunk at a time: the data is never copied whole.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from singleshot.posthoc.scaling import Scaling, fitting_set
from singleshot.posthoc.storage import check_names, number

BOUND = 1e4  # where no temperature is best: how many times hotter or colder than the logits' own scale to stop
LARGEST_MARGIN = 1e290  # in units of the scale: sums of them over rows and classes stay finite
MAX_STEPS = 200
CHUNK = 2**17  # numbers worked on at once: 1 MB in float64 stays in the cache, and is enough to keep it busy
LARGE = 2**18  # numbers from which on the search begins with a sample of one row in 16


@dataclass(frozen=True)
class NoFiniteTemperature:
    """Why the NLL falls for ever as the temperature goes to 0 or infinity, and where to stop instead."""

    bound: float
    why: str
    scale: float


def best_temperature(logits: Tensor, labels: Tensor) -> float | NoFiniteTemperature:
    """The τ of least mean NLL for checked logits (N, C) and labels (N,), right to about 1e-13 of itself."""
    typical, widest = _gaps(logits)
    scale = max(typical, float(torch.maximum(logits.amax(), -logits.amin())) / LARGEST_MARGIN)
    slope, largest, smallest = 0.0, -math.inf, 0.0
    for margins in _margins(logits, labels, scale):
        slope += float(margins.mean(1).sum())  # at b = 0, where the softmax is uniform
        largest, smallest = max(largest, float(margins.max())), min(smallest, float(margins.min()))
    if largest <= 0:
        bound = max(widest / BOUND, sys.float_info.min)
        return NoFiniteTemperature(bound, "every label has the largest logit, so colder is always better", widest)
    if slope >= 0:
        bound = min(widest * BOUND, sys.float_info.max)
        return NoFiniteTemperature(bound, "the logits are no better than chance, so hotter is always better", widest)
    # The curvature is at most a quarter of the squared spread, so up to low the slope cannot have risen to 0. With P
    # the largest margin the sum of slopes is at least P/C − NC/(e·b), and that is above 0 at high.
    examples, classes = logits.shape
    low = -slope / examples / (largest - smallest) / (largest - smallest)
    high = examples * classes**2 / largest
    guess = _first_guess(logits, labels, scale)
    return scale / _root_of_slope(logits, labels, scale, inverse=guess, low=low, high=high)


def _gaps(logits: Tensor) -> tuple[float, float]:
    """How far the largest logit is above the next, typically and at most: a class masked with −1e9 has no say in it."""
    rows = logits[:: max(1, logits.numel() // LARGE)].double()
    top = rows.topk(min(2, rows.shape[1]), 1).values
    gaps = (top[:, 0] - top[:, -1]).clamp_(max=sys.float_info.max)
    gaps = gaps[gaps > 0]
    if len(gaps):
        return float(gaps.median()), float(gaps.max())
    size = float(torch.maximum(logits.amax(), -logits.amin())) or 1.0
    return size, size


def _first_guess(logits: Tensor, labels: Tensor, scale: float) -> float:
    """The answer for an evenly spaced sample of a large set: it is nearly right, and saves steps over the whole."""
    if logits.numel() >= LARGE:
        sample = best_temperature(logits[::16], labels[::16])
        if not isinstance(sample, NoFiniteTemperature):
            return scale / sample
    return 1.0


def _root_of_slope(logits: Tensor, labels: Tensor, scale: float, *, inverse: float, low: float, high: float) -> float:
    """The b between ``low`` and ``high`` at which the increasing slope is 0; the search begins at ``inverse``."""
    inverse = inverse if low < inverse < high else _between(low, high)
    last_step, last_newton = math.inf, 0.0
    for _ in range(MAX_STEPS):
        slope, curvature = _slope_and_curvature(logits, labels, scale, inverse)
        low, high = (inverse, high) if slope < 0 else (low, inverse)
        newton = inverse - slope / curvature if 0 < curvature < math.inf else math.nan
        step = abs(newton - inverse)
        # Newton squares its error each time, so two of its steps foretell the third: no pass only to see that.
        foretold = step * (step / last_newton) ** 2 if last_newton else math.inf
        if step <= 1e-13 * inverse or foretold <= 1e-16 * inverse or low >= (1 - 1e-15) * high:
            return newton if low <= newton <= high else inverse
        # Newton's steps must shrink, or they would crawl: halving the bracket is never that slow.
        trusted = low < newton < high and step <= last_step / 2
        following = newton if trusted else _between(low, high)
        last_step, last_newton = abs(following - inverse), step if trusted else 0.0
        inverse = following
    raise ValueError(
        f"the temperature did not converge in {MAX_STEPS} steps: it is between {scale / high:g} and {scale / low:g}. "
        "Logits of very different sizes, such as classes masked with a huge negative number, can be the cause."
    )


def _between(low: float, high: float) -> float:
    """Halfway; in orders of magnitude, where there are many between them."""
    return math.sqrt(low) * math.sqrt(high) if high > 4 * low else (low + high) / 2


def _slope_and_curvature(logits: Tensor, labels: Tensor, scale: float, inverse: float) -> tuple[float, float]:
    """First and second derivative of the mean NLL in b: the mean and variance of the margins under softmax(b·z)."""
    slope, curvature = 0.0, 0.0
    for margins in _margins(logits, labels, scale):
        probs = torch.softmax(margins * inverse, dim=1)
        mean = (probs * margins).sum(1, keepdim=True)
        slope += float(mean.sum())
        margins.sub_(mean)
        curvature += float(probs.mul_(margins).mul_(margins).sum())  # in this order 0 · huge² is 0
    return slope / len(labels), curvature / len(labels)


def _margins(logits: Tensor, labels: Tensor, scale: float) -> Iterator[Tensor]:
    """Logits in units of the scale, relative to the label's: exactly 0 there, so that a sure row loses no digits."""
    rows = max(1, CHUNK // logits.shape[1])
    for part, label in zip(torch.split(logits, rows), torch.split(labels, rows), strict=True):
        margins = part.double() / scale
        yield margins.sub_(margins.gather(1, label.unsqueeze(1)))


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
