"""Could these predictions be perfectly calibrated?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from singleshot.checks import check_choice, check_size
from singleshot.metrics.examples import Examples
from singleshot.metrics.resampling import SortedExamples, sort_examples

STATISTICS = ("ece", "total")


@dataclass(frozen=True)
class ConsistencyTest:
    """How large an error was found, what perfect calibration leads to, and how often that is as large."""

    statistic: str
    observed: float
    expected: float  # the mean if the confidences were right
    p_value: float


def consistency_test(
    examples: Examples, *, statistic: str = "ece", replicates: int = 1000, seed: int = 0, bins: int = 20
) -> ConsistencyTest:
    """Test that each prediction is right with the probability that its confidence says.

    Correctness is drawn anew from the confidences many times; if they are right, what was observed is one more such
    draw, and p = (1 + draws at least as large) / (1 + draws) is at most α with a probability of at most α, exactly and
    for any number of examples. A small p says that the confidences are wrong, a large one not that they are right.

    Args:
        examples: independent examples; a thousand copies of one would look like evidence.
        statistic: "ece", the binned error, sees every kind of miscalibration; "total", |mean confidence − accuracy|,
            needs no bins and sees over- or underconfidence that goes one way everywhere, with fewer examples.
        replicates: how many draws; the smallest possible p is 1 / (1 + replicates).
        seed: the same one gives the same p-value.
        bins: equal-width bins of the ECE.

    >>> import torch
    >>> probs = torch.tensor([[0.99, 0.01]]).repeat(50, 1)
    >>> consistency_test(Examples.of(probs=probs, labels=torch.tensor([0, 1] * 25))).p_value < 0.01
    True
    """
    check_choice("statistic", statistic, STATISTICS)
    check_size("replicates", replicates, least=1)
    table = sort_examples(examples, check_size("bins", bins, least=1))
    starts = table.cells[table.width_bins] if statistic == "ece" else np.zeros(1, dtype=np.int64)
    confidence = np.add.reduceat(table.confidence, starts)
    generator = np.random.Generator(np.random.SFC64(seed))

    def error(correct: NDArray[np.bool_]) -> float:
        return float(np.abs(confidence - np.add.reduceat(correct.astype(np.int64), starts)).sum()) / len(table)

    observed = error(table.wrong == 0)
    imagined = np.array([error(_draw(table, generator)) for _ in range(replicates)])
    # Equal sets of right answers must count as equal, whatever rounding says.
    as_large = int((imagined >= observed - 1e-12).sum())
    return ConsistencyTest(statistic, observed, float(imagined.mean()), (1 + as_large) / (1 + replicates))


def _draw(table: SortedExamples, generator: np.random.Generator) -> NDArray[np.bool_]:
    return np.asarray(generator.random(len(table)) < table.confidence)
