"""The smooth calibration error: a kernel in place of bins.

Bins jump: an example that crosses an edge can change the ECE by a lot. Here every example spreads its residual
confidence − correct over the unit interval by a Gaussian of bandwidth σ, reflected at 0 and 1, and the error is
∫ |Σ_i K_σ(t, c_i) (c_i − y_i) / N| dt. With larger σ it falls; the bandwidth is where the error equals it, so that
nothing is left to choose (Błasiok and Nakkiran 2024, "Smooth ECE").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from singleshot.metrics.debiased import BinSums, Gaps, debiased_error

Array = NDArray[np.float64]
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
