"""The calibration error without what chance adds to it.

In a bin of n examples the gap d̂ between mean confidence and accuracy is the true gap d and a noise of variance
s² = a (1 − a) / n. An absolute value makes errors out of noise: E|d̂| > |d|, so that even a perfectly calibrated
classifier has an ECE above 0, and the more the fewer examples there are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class BinSums(NamedTuple):
    """Sums of the examples in each bin, of shape (..., bins): one set of bins, or one for each of many resamples."""

    size: Array  # how many examples
    correct: Array  # how many of them are right
    confidence: Array  # the sum of their confidences


class Gaps(NamedTuple):
    """Each bin's share of the examples, its gap (confidence − accuracy, 0 where empty) and the variance of the gap."""

    share: Array
    gap: Array
    variance: Array


def gaps_of(sums: BinSums) -> Gaps:
    """The gaps of bins, and how far chance may move them.

    The accuracy that the variance needs counts one example of the mean confidence besides the bin's own: without it, a
    bin of one example or of right ones only would pass for one that is known exactly.
    """
    size, correct, confidence = sums
    filled = np.maximum(size, 1)
    accuracy = (correct + confidence / filled) / (size + 1)
    variance = np.where(size > 0, np.clip(accuracy * (1 - accuracy), 0, None) / filled, 0)
    return Gaps(size / size.sum(-1, keepdims=True), (confidence - correct) / filled, variance)


def plain_error(gaps: Gaps) -> Array:
    """Σ_b share_b |gap_b|: the ECE of these bins."""
    return np.asarray((gaps.share * np.abs(gaps.gap)).sum(-1))


def debiased_error(gaps: Gaps) -> Array:
    """The ECE of these bins less the error that chance is expected to add; not clipped, so it may be below 0.

    What chance adds to a bin, E|d + noise| − |d|, depends on the true gap d, which is not known. The bins together say
    what gaps to expect: about N(μ, τ²), with μ their mean and τ² the spread that noise does not explain. Given that and
    d̂, the gap d is N(m, v) with κ = τ² / (τ² + s²), m = μ + κ (d̂ − μ) and v = κ s² (empirical Bayes), so that chance is
    expected to add E|N(m, v + s²)| − E|N(m, v)|. Near perfect calibration that is most of the ECE, far from it next to
    nothing.
    """
    share, gap, noise = gaps
    mean = (share * gap).sum(-1, keepdims=True)
    # the noise is in the mean too: E Σ share (d̂ − μ̂)² = τ² + Σ share (1 − share) s²
    explained = (share * (1 - share) * noise).sum(-1, keepdims=True)
    spread = np.maximum((share * (gap - mean) ** 2).sum(-1, keepdims=True) - explained, 0)
    shrink = spread / np.maximum(spread + noise, np.finfo(float).tiny)
    likely, uncertainty = mean + shrink * (gap - mean), shrink * noise
    excess = mean_absolute_normal(likely, uncertainty + noise) - mean_absolute_normal(likely, uncertainty)
    return np.asarray(plain_error(gaps) - (share * excess).sum(-1))


def overconfident_part(gaps: Gaps) -> Array:
    """Σ_b share_b max(gap_b, 0): the part of the ECE from bins whose confidence is above their accuracy."""
    return np.asarray((gaps.share * np.maximum(gaps.gap, 0)).sum(-1))


def debiased_overconfident_part(gaps: Gaps) -> Array:
    """The same less what chance is expected to add; it may be below 0.

    max(d, 0) = (|d| + d) / 2, and noise leaves the mean of d as it is: chance adds half of what it adds to |d|.
    """
    return np.asarray((debiased_error(gaps) + (gaps.share * gaps.gap).sum(-1)) / 2)


def turned(gaps: Gaps) -> Gaps:
    """The gaps as accuracy − confidence: what is overconfident of them is underconfident of the others."""
    return gaps._replace(gap=-gaps.gap)


def debiased_square_error(gaps: Gaps) -> Array:
    """Σ_b share_b (gap_b² − s_b²): the squared error, of which chance adds exactly s²; it may be below 0.

    After Kumar, Liang and Ma (2019), "Verified uncertainty calibration".
    """
    return np.asarray((gaps.share * (gaps.gap**2 - gaps.variance)).sum(-1))


def mean_absolute_normal(mean: Array, variance: Array) -> Array:
    """E|X| of X ~ N(mean, variance): √(2v/π) exp(−m²/2v) + m erf(m/√(2v)), and |m| without variance."""
    from scipy.special import erf

    double = 2 * np.maximum(variance, np.finfo(float).tiny)
    with np.errstate(over="ignore"):  # a mean of many deviations: the exponential is 0, the error function 1
        deviations = mean / np.sqrt(double)
        folded = np.sqrt(double / np.pi) * np.exp(-(deviations**2)) + mean * erf(deviations)
    return np.asarray(np.where(variance > 0, folded, np.abs(mean)))
