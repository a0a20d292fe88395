"""Bins of confidences, and estimators of the calibration error from the sums of each bin."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]


def bin_index(values: Tensor, bins: int) -> Tensor:
    """Return the equal-width bin (lo, hi] of each value in [0, 1]; 0 belongs to the first bin.

    The edges are rounded to the dtype of the values, so a float32 0.15 lies on the edge 0.15 and not above it.

    >>> bin_index(torch.tensor([0.0, 0.15, 0.16, 1.0]), bins=20)
    tensor([ 0,  2,  3, 19])
    """
    edges = bin_edges(bins)[:-1].to(values)
    if bins * torch.finfo(values.dtype).eps > 1 / 4:  # rounded edges could be bins apart
        return torch.bucketize(values, edges[1:])
    edges[0] = -1  # nothing lies below the first bin
    # The nearest edge is known without a search: rounding errors are small compared with half a bin.
    nearest = (values * bins).round_().long().clamp_(0, bins - 1)
    return nearest - (values <= edges.take(nearest)).long()


def bin_edges(bins: int) -> Tensor:
    """Return the bins + 1 edges k / bins, in float64."""
    return torch.arange(bins + 1, dtype=torch.float64, device="cpu") / bins


def sum_by_bin(index: Tensor, bins: int, values: Tensor | None = None) -> Tensor:
    """Return the number of examples in each bin (int64), or the sum of their values (float64)."""
    if values is None:
        return torch.bincount(index, minlength=bins)
    # The outer double() is for empty input, for which bincount returns integers.
    return torch.bincount(index, weights=values.double(), minlength=bins).double()


def bins_are_plausible(count: Tensor, correct: Tensor, total: Tensor) -> bool:
    """Return whether bins of ``count`` examples can have these correct counts and sums of values in [0, 1]."""
    countable = count.double().sum() < 2**53
    return bool(countable and (correct <= count).all() and (total <= count * (1 + 1e-6) + 1e-6).all())


def equal_mass_index(confidence: Array, bins: int) -> NDArray[np.int64]:
    """Return the equal-mass bin of each confidence, from 0 for the lowest.

    The bin of a value is ⌊bins · r⌋, where r is the middle of its ranks as a share of all examples. Equal confidences
    always share a bin, so with many ties or few examples the bins differ in size and some are empty.
    """
    _, group, count = np.unique(confidence, return_inverse=True, return_counts=True)
    twice_middle = 2 * np.cumsum(count) - count  # integers, so that no rounding moves an edge
    return np.asarray((bins * twice_middle // (2 * len(confidence)))[group], dtype=np.int64)


class BinSums(NamedTuple):
    """Sums over the examples of each bin, of shape (..., bins); leading axes are resamples."""

    size: Array  # number of examples
    correct: Array  # number of correct predictions
    confidence: Array  # sum of confidences


def simulate_calibrated(sums: BinSums, replicates: int, generator: np.random.Generator) -> BinSums:
    """Simulate calibrated classifiers: the correct predictions of a bin are binomial at its mean confidence."""
    chance = np.clip(sums.confidence / np.maximum(sums.size, 1), 0, 1)
    shape = (replicates, *sums.size.shape)
    correct = generator.binomial(sums.size.astype(np.int64), chance, size=shape).astype(np.float64)
    return BinSums(np.broadcast_to(sums.size, shape), correct, np.broadcast_to(sums.confidence, shape))


class Gaps(NamedTuple):
    """Per bin: share of the examples, gap (confidence − accuracy, 0 if empty), and sampling variance of the gap."""

    share: Array
    gap: Array
    variance: Array


def gaps_of(sums: BinSums) -> Gaps:
    """Compute the gap of each bin and its sampling variance.

    The accuracy in the variance includes one pseudo-example at the mean confidence. Without it, a bin of one example or
    of correct predictions only would have no variance.
    """
    size, correct, confidence = sums
    filled = np.maximum(size, 1)
    accuracy = (correct + confidence / filled) / (size + 1)
    variance = np.where(size > 0, np.clip(accuracy * (1 - accuracy), 0, None) / filled, 0)
    return Gaps(size / size.sum(-1, keepdims=True), (confidence - correct) / filled, variance)


def plain_error(gaps: Gaps) -> Array:
    """Σ_b share_b |gap_b|, the ECE of these bins."""
    return np.asarray((gaps.share * np.abs(gaps.gap)).sum(-1))


def debiased_error(gaps: Gaps) -> Array:
    """The ECE of these bins minus its expected bias from sampling noise; not clipped, so it can be negative.

    Noise adds E|d + noise| − |d| to a bin, which depends on the unknown true gap d. Its distribution is estimated from
    all bins (empirical Bayes): d ~ N(μ, τ²), where μ is the mean gap and τ² the spread that noise does not explain.
    Given the observed gap d̂ with variance s², d ~ N(m, v) with κ = τ² / (τ² + s²), m = μ + κ (d̂ − μ) and v = κ s². The
    expected bias is then E|N(m, v + s²)| − E|N(m, v)|: most of the ECE near perfect calibration, little far from it.
    """
    share, gap, noise = gaps
    mean = (share * gap).sum(-1, keepdims=True)
    # The mean is noisy too: E Σ share (d̂ − μ̂)² = τ² + Σ share (1 − share) s².
    explained = (share * (1 - share) * noise).sum(-1, keepdims=True)
    spread = np.maximum((share * (gap - mean) ** 2).sum(-1, keepdims=True) - explained, 0)
    shrink = spread / np.maximum(spread + noise, np.finfo(float).tiny)
    posterior_mean, posterior_variance = mean + shrink * (gap - mean), shrink * noise
    with_noise = mean_absolute_normal(posterior_mean, posterior_variance + noise)
    excess = with_noise - mean_absolute_normal(posterior_mean, posterior_variance)
    return np.asarray(plain_error(gaps) - (share * excess).sum(-1))


def overconfident_part(gaps: Gaps) -> Array:
    """Σ_b share_b max(gap_b, 0), the part of the ECE from overconfident bins."""
    return np.asarray((gaps.share * np.maximum(gaps.gap, 0)).sum(-1))


def debiased_overconfident_part(gaps: Gaps) -> Array:
    """The overconfident part minus its expected bias; it can be negative.

    max(d, 0) = (|d| + d) / 2 and noise does not bias d, so the bias is half of that of |d|.
    """
    return np.asarray((debiased_error(gaps) + (gaps.share * gaps.gap).sum(-1)) / 2)


def negated(gaps: Gaps) -> Gaps:
    """Return the gaps as accuracy − confidence, which swaps overconfidence and underconfidence."""
    return gaps._replace(gap=-gaps.gap)


def debiased_square_error(gaps: Gaps) -> Array:
    """Σ_b share_b (gap_b² − s_b²), the squared error without its bias (Kumar et al. 2019); it can be negative."""
    return np.asarray((gaps.share * (gaps.gap**2 - gaps.variance)).sum(-1))


def mean_absolute_normal(mean: Array, variance: Array) -> Array:
    """E|X| of X ~ N(m, v): √(2v/π) exp(−m²/2v) + m erf(m/√(2v)), or |m| if v = 0."""
    from scipy.special import erf

    double = 2 * np.maximum(variance, np.finfo(float).tiny)
    with np.errstate(over="ignore"):  # an overflow means many deviations: exp gives 0 and erf gives 1
        deviations = mean / np.sqrt(double)
        folded = np.sqrt(double / np.pi) * np.exp(-(deviations**2)) + mean * erf(deviations)
    return np.asarray(np.where(variance > 0, folded, np.abs(mean)))


GRID = 1024
"""Cells of [0, 1] that the smooth ECE rounds confidences to; far finer than any bandwidth in practice."""


def smoothed(values: Array, bandwidth: float) -> Array:
    """Smooth values on the grid (..., GRID) with a Gaussian that is reflected at both ends.

    Reflected values are a sum of cosines, and a Gaussian multiplies the cosine of frequency πk by exp(−(πkσ)²/2).
    """
    from scipy.fft import dct, idct

    decay = np.exp(-0.5 * (np.pi * bandwidth * np.arange(GRID)) ** 2)
    return np.asarray(idct(dct(values, axis=-1) * decay, axis=-1))


def smooth_error(residual: Array, total: float, bandwidth: float) -> Array:
    """The smooth ECE of ``total`` examples from the sums of confidence − correct on the grid (..., GRID)."""
    return np.asarray(np.abs(smoothed(residual, bandwidth)).sum(-1) / total)


def fixed_point_bandwidth(residual: Array, total: float) -> float:
    """Find the bandwidth σ at which the smooth ECE equals σ, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if float(smooth_error(residual, total, middle)) > middle:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def coarse_kernel(bandwidth: float) -> Array:
    """Return the smoothing kernel from the grid to every fourth of its points, (GRID, GRID / 4)."""
    kernel: Array = smoothed(np.eye(GRID)[2::4], bandwidth).T
    return kernel


def debiased_smooth_error(cells: BinSums, where: NDArray[np.int64], kernel: Array) -> Array:
    """The smooth ECE minus its expected bias, from the sums (..., k) of the grid cells ``where`` (k,).

    At each kernel point the gap is the kernel-weighted mean residual, and the squared kernel gives its variance.
    """
    near = kernel[where]
    weight = np.maximum(cells.size @ near, 1e-12 * cells.size.sum(-1, keepdims=True))
    accuracy = np.clip((cells.correct @ near) / weight, 0, 1)
    local_accuracy = accuracy[..., where // 4]  # at each cell
    variance = (cells.size * local_accuracy * (1 - local_accuracy)) @ near**2
    residual = (cells.confidence - cells.correct) @ near
    return debiased_error(Gaps(weight / weight.sum(-1, keepdims=True), residual / weight, variance / weight**2))
