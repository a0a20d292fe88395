"""Expected numbers of figures of synthetic results, computed with numpy, and the texts of a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from fake_results import EXAMPLES, SEEDS, predictions
from singleshot.training.recipe import Recipe

Array = np.ndarray[Any, np.dtype[Any]]


def softmax(logits: Tensor) -> Array:
    powers = np.exp(logits.numpy() - logits.numpy().max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def binned(base: Recipe, method: str, seeds: Sequence[int]) -> tuple[Array, Array, Array]:
    """Count, correct predictions and summed confidence in each of 20 bins, over all seeds."""
    sums = np.zeros((3, 20))
    for seed in seeds:
        logits, labels, _ = predictions(base, method, seed)
        probs = softmax(logits)
        index = np.ceil(probs.max(1) * 20).astype(int) - 1
        for row, weight in enumerate((np.ones(EXAMPLES), probs.argmax(1) == labels.numpy(), probs.max(1))):
            sums[row] += np.bincount(index, weight, 20)
    return sums[0], sums[1], sums[2]


def ece(base: Recipe, method: str, seeds: Sequence[int]) -> float:
    count, correct, confidence = binned(base, method, seeds)
    return float(np.abs(correct - confidence).sum() / count.sum())


def eces(base: Recipe, method: str, seeds: int = SEEDS) -> list[float]:
    return [ece(base, method, [seed]) for seed in range(seeds)]


def assert_estimates(estimate: dict[str, Any], values: Sequence[float]) -> None:
    assert estimate["mean"] == pytest.approx(np.mean(values))
    assert estimate["standard_error"] == pytest.approx(np.std(values, ddof=1) / np.sqrt(len(values)))
    assert estimate["seeds"] == len(values)


def texts(figure: Any) -> str:
    """Return all texts of a figure."""
    from matplotlib.text import Text

    return "\n".join(text.get_text() for text in figure.findobj(Text))


def panels(figure: Any) -> list[Any]:
    return [ax for ax in figure.findobj(lambda artist: hasattr(artist, "get_xlabel")) if ax.get_label() != "<colorbar>"]
