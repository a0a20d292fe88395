"""Bins that hold as many examples each: equal mass in place of equal width."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


def equal_mass_index(confidence: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    """The equal-mass bin of each confidence, from 0 for the lowest; the confidences need no order.

    A value's bin is ⌊bins · r⌋ with r the middle of the share of examples it spans when all are ranked. Equal
    confidences therefore share a bin, whatever order they came in. Where many are equal, or there are fewer examples
    than bins, some bins hold more examples than others and some none.

    >>> equal_mass_index(np.array([0.9, 0.5, 0.6, 0.7]), bins=2)
    array([1, 0, 0, 1])
    >>> equal_mass_index(np.array([0.9, 0.9, 0.9, 0.7]), bins=2)
    array([1, 1, 1, 0])
    """
    _, group, count = np.unique(confidence, return_inverse=True, return_counts=True)
    twice_middle = 2 * np.cumsum(count) - count  # whole numbers, so that no rounding moves an edge
    return np.asarray((bins * twice_middle // (2 * len(confidence)))[group], dtype=np.int64)


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


GRID = 1024
"""Cells of [0, 1] that confidences are rounded to: far below any bandwidth that examples in memory lead to."""


def grid_cell(confidence: Array) -> NDArray[np.int64]:
    """The cell of each confidence."""
    return np.clip((confidence * GRID).astype(np.int64), 0, GRID - 1)


def smoothed(values: Array, bandwidth: float) -> Array:
    """Values on the grid (..., GRID), smoothed by the Gaussian with reflection at both ends.

    Mirrored values are a sum of cosines, and a Gaussian multiplies the cosine of frequency πk by exp(−(πkσ)²/2).
    """
    from scipy.fft import dct, idct

    decay = np.exp(-0.5 * (np.pi * bandwidth * np.arange(GRID)) ** 2)
    return np.asarray(idct(dct(values, axis=-1) * decay, axis=-1))


def smooth_error(residual: Array, total: float, bandwidth: float) -> Array:
    """The error of summed residuals on the grid (..., GRID), at this bandwidth, for this number of examples."""
    return np.asarray(np.abs(smoothed(residual, bandwidth)).sum(-1) / total)


def fixed_point_bandwidth(residual: Array, total: float) -> float:
    """The σ at which the smooth error is σ, by bisection: the error less σ falls as σ grows."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if float(smooth_error(residual, total, middle)) > middle:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def coarse_kernel(bandwidth: float) -> Array:
    """The kernel from the grid to every fourth of its points, (GRID, GRID / 4): smoothed gaps vary slowly."""
    return smoothed(np.eye(GRID)[2::4], bandwidth).T


def debiased_smooth_error(cells: BinSums, where: NDArray[np.int64], kernel: Array) -> Array:
    """The smooth error less what chance adds, as `debiased_error` has it; of cells (..., k) at these k grid cells.

    At t the gap is the kernel-weighted mean residual, with a variance from the squares of the kernel.
    """
    near = kernel[where]
    weight = np.maximum(cells.size @ near, 1e-12 * cells.size.sum(-1, keepdims=True))
    accuracy = np.clip((cells.correct @ near) / weight, 0, 1)
    around_cells = accuracy[..., where // 4]  # the accuracy where each cell is
    spread = (cells.size * around_cells * (1 - around_cells)) @ near**2
    residual = (cells.confidence - cells.correct) @ near
    return debiased_error(Gaps(weight / weight.sum(-1, keepdims=True), residual / weight, spread / weight**2))
