"""Reference implementations of the metrics of examples, with plain loops."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import torch
from numpy.typing import NDArray

import oracle
from singleshot.metrics import Examples

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]


def made(confidence: object, correct: object, dtype: torch.dtype = torch.float64) -> Examples:
    """Examples with these confidences, and distinct NLLs and Brier scores."""
    values = torch.as_tensor(confidence, dtype=dtype)
    return Examples(values, torch.as_tensor(correct, dtype=torch.bool), 2 - values.double(), values.double() ** 2)


def drawn(size: int, seed: int = 0, *, slope: float = 1.0, ties: bool = False) -> Examples:
    """Random examples, right with ``slope`` times their confidence."""
    generator = np.random.default_rng(seed)
    confidence = 0.1 + 0.9 * generator.beta(3, 1, size)
    if ties:
        confidence = np.round(confidence, 1)
    return made(confidence, generator.random(size) < slope * confidence)


def plain(examples: Examples) -> tuple[Array, Bools]:
    return examples.confidence.double().numpy(), examples.correct.numpy()


def ece(confidence: Array, correct: Bools, groups: list[int]) -> float:
    """The ECE of examples in these groups."""
    error = 0.0
    for group in set(groups):
        members = [i for i, g in enumerate(groups) if g == group]
        error += abs(sum(confidence[i] - correct[i] for i in members))
    return error / len(confidence)


def width_groups(confidence: Array, bins: int) -> list[int]:
    return [oracle.which_bin(value, bins) for value in confidence]


def mass_groups(confidence: Array, bins: int) -> list[int]:
    """⌊bins × mid-rank⌋, with ranks by counting lower values."""
    total = len(confidence)
    return [
        math.floor(bins * ((confidence < c).sum() + (confidence == c).sum() / 2) / total + 1e-9) for c in confidence
    ]


def aurc(confidence: Array, correct: Bools) -> float:
    """The mean over examples of the risk among those at least as confident."""
    return float(np.mean([1 - correct[confidence >= c].mean() for c in confidence]))


def excess_aurc(confidence: Array, correct: Bools) -> float:
    """The AURC above that of the same predictions with the correct ones ranked first."""
    best = sorted(correct, reverse=True)
    risks = [1 - np.mean(best[:accepted]) for accepted in range(1, len(best) + 1)]
    return aurc(confidence, correct) - float(np.mean(risks))


def smooth_ece(confidence: Array, correct: Bools, bandwidth: float, points: int = 4000) -> float:
    """The integral of the smoothed residuals, with mirror images instead of cosines."""
    t = (np.arange(points) + 0.5) / points
    curve = np.zeros(points)
    for c, y in zip(confidence, correct, strict=True):
        for image in range(-6, 7, 2):
            for centre in (image + c, image - c):
                curve += (c - y) * np.exp(-0.5 * ((t - centre) / bandwidth) ** 2)
    return float(np.abs(curve).mean() / (bandwidth * math.sqrt(2 * math.pi)) / len(confidence))


def repeated(examples: Examples, counts: NDArray[np.int64]) -> Examples:
    """Repeat each example as often as its count."""
    rows = [i for i, count in enumerate(counts) for _ in range(count)]
    assert Counter(rows).total() == len(rows)
    return Examples(examples.confidence[rows], examples.correct[rows], examples.nll[rows], examples.brier[rows])
