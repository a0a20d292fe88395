"""Temperature scaling, with the exact temperature of least NLL.

With b = 1/τ and margins m_c = z_c − z_y, the NLL of one example is log Σ_c exp(b·m_c). Its slope in b is the mean of m
under softmax(b·z), and its curvature the variance. So the NLL is convex in b, and its minimum is the single root of the
slope. Rows are processed in float64, a cache-sized chunk at a time, without a copy of the whole data.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from singleshot.common.checks import check_range
from singleshot.common.layout import fitting_set
from singleshot.posthoc.scaling import Scaling, check_classes, check_finite

BOUND = 1e4  # without a best temperature, the result is this many times hotter or colder than the scale of the logits
MAX_MARGIN = 1e290  # in units of the scale: sums over rows and classes stay finite
MAX_STEPS = 200
CHUNK = 2**17  # numbers processed at once: 1 MB in float64 fits into the cache
LARGE = 2**18  # from this many numbers on, the search starts with a sample of one row in 16


@dataclass(frozen=True)
class NoFiniteTemperature:
    """The NLL decreases all the way to a temperature of 0 or infinity: the reason, and the bound to use instead."""

    bound: float
    reason: str
    scale: float


def best_temperature(logits: Tensor, labels: Tensor) -> float | NoFiniteTemperature:
    """Return the τ of least mean NLL for checked logits (N, C) and labels (N,), to a relative error of about 1e-13."""
    typical, widest = _gaps(logits)
    scale = max(typical, float(torch.maximum(logits.amax(), -logits.amin())) / MAX_MARGIN)
    slope, largest, smallest = 0.0, -math.inf, 0.0
    for margins in _margins(logits, labels, scale):
        slope += float(margins.mean(1).sum())  # at b = 0, where the softmax is uniform
        largest, smallest = max(largest, float(margins.max())), min(smallest, float(margins.min()))
    if largest == 0 == smallest:  # every row is constant, so that every temperature is equally good
        return 1.0
    if largest <= 0:
        reason = "every label has the largest logit, so a lower temperature is always better"
        return NoFiniteTemperature(max(widest / BOUND, sys.float_info.min), reason, widest)
    if slope >= 0:
        reason = "the logits are no better than chance, so a higher temperature is always better"
        return NoFiniteTemperature(min(widest * BOUND, sys.float_info.max), reason, widest)
    # The curvature is at most a quarter of the squared spread, so the slope is below 0 up to low. With P the largest
    # margin, the sum of slopes is at least P/C − NC/(e·b), which is above 0 at high.
    examples, classes = logits.shape
    low = -slope / examples / (largest - smallest) / (largest - smallest)
    high = examples * classes**2 / largest
    guess = 1.0
    if logits.numel() >= LARGE:
        sample = best_temperature(logits[::16], labels[::16])
        guess = scale / sample if isinstance(sample, float) else guess
    return scale / _root_of_slope(logits, labels, scale, inverse=guess, low=low, high=high)


def _gaps(logits: Tensor) -> tuple[float, float]:
    """Return the median and maximum gap between the two largest logits of a row; masked classes have no effect."""
    rows = logits[:: max(1, logits.numel() // LARGE)].double()
    top = rows.topk(min(2, rows.shape[1]), 1).values
    gaps = (top[:, 0] - top[:, -1]).clamp_(max=sys.float_info.max)
    gaps = gaps[gaps > 0]
    if len(gaps):
        return float(gaps.median()), float(gaps.max())
    size = float(torch.maximum(logits.amax(), -logits.amin())) or 1.0
    return size, size


def _root_of_slope(logits: Tensor, labels: Tensor, scale: float, *, inverse: float, low: float, high: float) -> float:
    """Return the b between ``low`` and ``high`` where the increasing slope is 0, starting from ``inverse``."""
    inverse = inverse if low < inverse < high else _midpoint(low, high)
    last_step, last_newton = math.inf, 0.0
    for _ in range(MAX_STEPS):
        slope, curvature = _slope_and_curvature(logits, labels, scale, inverse)
        low, high = (inverse, high) if slope < 0 else (low, inverse)
        newton = inverse - slope / curvature if 0 < curvature < math.inf else math.nan
        step = abs(newton - inverse)
        # Newton squares its error in each step, so two steps predict the third and save the pass to check it.
        predicted = step * (step / last_newton) ** 2 if last_newton else math.inf
        if step <= 1e-13 * inverse or predicted <= 1e-16 * inverse or low >= (1 - 1e-15) * high:
            return newton if low <= newton <= high else inverse
        # Newton's steps must shrink by half; otherwise bisection is faster.
        trusted = low < newton < high and step <= last_step / 2
        following = newton if trusted else _midpoint(low, high)
        last_step, last_newton = abs(following - inverse), step if trusted else 0.0
        inverse = following
    raise ValueError(
        f"the temperature did not converge in {MAX_STEPS} steps: it is between {scale / high:g} and {scale / low:g}. "
        "Logits of very different sizes, such as classes masked with a huge negative number, can be the cause."
    )


def _midpoint(low: float, high: float) -> float:
    """Return the midpoint: the geometric mean if the bounds differ by a large factor."""
    return math.sqrt(low) * math.sqrt(high) if high > 4 * low else (low + high) / 2


def _slope_and_curvature(logits: Tensor, labels: Tensor, scale: float, inverse: float) -> tuple[float, float]:
    """Return the first and second derivative of the mean NLL in b."""
    slope, curvature = 0.0, 0.0
    for margins in _margins(logits, labels, scale):
        probs = torch.softmax(margins * inverse, dim=1)
        mean = (probs * margins).sum(1, keepdim=True)
        slope += float(mean.sum())
        margins.sub_(mean)
        curvature += float(probs.mul_(margins).mul_(margins).sum())  # in this order 0 · huge² is 0
    return slope / len(labels), curvature / len(labels)


def _margins(logits: Tensor, labels: Tensor, scale: float) -> Iterator[Tensor]:
    """Yield logits in units of the scale, relative to that of the label, so that confident rows lose no digits."""
    rows = max(1, CHUNK // logits.shape[1])
    for part, label in zip(torch.split(logits, rows), torch.split(labels, rows), strict=True):
        margins = part.double() / scale
        yield margins.sub_(margins.gather(1, label.unsqueeze(1)))


class TemperatureScaling(Scaling):
    """Divide logits by one temperature τ: softmax(z / τ). The predicted class does not change.

    >>> logits, labels = torch.tensor([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 0, 1])
    >>> scaling = TemperatureScaling.fit(logits, labels)
    >>> scaling(logits).softmax(1)[0]  # right two times out of three
    tensor([0.6667, 0.3333])
    """

    method = "temperature"
    fields: ClassVar[dict[str, Any]] = {"temperature": float}
    divisor: Tensor  # the temperature, a scalar; with this name in the state_dict

    def __init__(self, temperature: float) -> None:
        super().__init__()
        check_range("temperature", temperature, "(0, inf)")
        if temperature < sys.float_info.min:  # subnormal: few digits and an infinite inverse
            raise ValueError(f"temperature must be at least {sys.float_info.min:g}, got {temperature}")
        self._register_float64(divisor=temperature)

    @classmethod
    @torch.no_grad()
    def fit(cls, logits: Tensor, labels: Tensor) -> TemperatureScaling:
        """Fit the τ that minimises the mean NLL of logits (N, C) against labels (N,), to float64 precision.

        The NLL is convex in the inverse temperature b = 1/τ. The root of its slope is found by Newton's method,
        safeguarded by bisection. If every label has the largest logit, or the logits are no better than chance, no
        finite τ > 0 minimises it: the result is then a bound, with a warning. Logits (N,) or (N, 1) are those of a
        binary classifier, whose probability is sigmoid(z / τ).
        """
        best = best_temperature(*fitting_set(logits, labels, one_logit=True))
        if isinstance(best, NoFiniteTemperature):
            warnings.warn(
                f"no finite temperature minimises the NLL: {best.reason}. Using the bound {best.bound:g}; use more "
                "data, with both right and wrong predictions.",
                stacklevel=3,
            )
            return cls(best.bound)
        return cls(best)

    @property
    def temperature(self) -> float:
        """The temperature τ."""
        return float(self.divisor)

    def forward(self, logits: Tensor) -> Tensor:
        """Return logits of any shape, divided by the temperature."""
        check_classes(logits, None)
        return check_finite(logits / self.divisor, logits)
