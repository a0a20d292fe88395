"""How accuracy and score fall as the T passes disagree more: the paper's variance–accuracy histogram (Fig. 2)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from singleshot.metrics.binning import bin_edges, bin_index, sum_by_bin
from singleshot.metrics.rows import rows_from_probs
from singleshot.metrics.state import AdditiveState
from singleshot.uncertainty import VarianceReading, normalized_variance, predictive_mean


@dataclass(frozen=True)
class VarianceBins:
    """Per bin of the normalized variance, each field of shape (bins,); accuracy and score are NaN where empty."""

    lower: Tensor
    upper: Tensor
    count: Tensor
    accuracy: Tensor  # of the average prediction
    score: Tensor  # mean confidence of the average prediction
    coverage: Tensor  # share of examples in this bin and those below


class VarianceHistogram(AdditiveState):
    """Accuracy and score of the average prediction per bin of its normalized variance.

    The state is made of sums: it merges, saves and reduces across processes as `Calibration` does.

    >>> agree = torch.tensor([[[5.0, 0.0]], [[5.0, 0.0]]])
    >>> histogram = VarianceHistogram(bins=2)
    >>> histogram.update(logits=agree, labels=torch.tensor([0]))
    >>> histogram.compute().accuracy
    tensor([1., nan], dtype=torch.float64)
    """

    kind = "variance_histogram"

    def __init__(self, bins: int = 20) -> None:
        if bins < 1:
            raise ValueError(f"bins must be at least 1, got {bins}")
        super().__init__({"bins": bins})

    @staticmethod
    def _zero_sums(sizes: dict[str, int]) -> dict[str, Tensor]:
        bins = sizes["bins"]
        return {
            "count": torch.zeros(bins, dtype=torch.int64),
            "correct": torch.zeros(bins, dtype=torch.int64),
            "score": torch.zeros(bins, dtype=torch.float64),
        }

    @torch.no_grad()
    def update(self, *, logits: Tensor, labels: Tensor, kind: str | VarianceReading = "bhattacharyya") -> None:
        """Add T stochastic passes (T, B, C) over one batch with labels (B,)."""
        bins = self._sizes["bins"]
        index = bin_index(normalized_variance(logits, kind).cpu(), bins)
        rows = rows_from_probs(predictive_mean(logits), labels.to(logits.device).long())
        self._sums["count"] += sum_by_bin(index, bins)
        self._sums["correct"] += sum_by_bin(index[rows.correct.cpu()], bins)
        self._sums["score"] += sum_by_bin(index, bins, rows.confidence.cpu())

    def compute(self) -> VarianceBins:
        """The histogram of all examples so far."""
        count = self._sums["count"]
        if not int(count.sum()):
            raise ValueError("there is nothing to compute yet: update the VarianceHistogram with at least one example")
        edges = bin_edges(self._sizes["bins"])
        return VarianceBins(
            lower=edges[:-1],
            upper=edges[1:],
            count=count.clone(),
            accuracy=self._sums["correct"] / count.double(),
            score=self._sums["score"] / count.double(),
            coverage=count.cumsum(0).double() / count.sum(),
        )
