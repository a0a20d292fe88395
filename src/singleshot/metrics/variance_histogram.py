"""How accuracy and score fall as the T passes disagree more: the paper's variance–accuracy histogram (Fig. 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from singleshot.common.checks import as_tensor, check_choice, check_labels, check_logits, check_size
from singleshot.metrics.binning import bin_edges, bin_index, bins_are_plausible, sum_by_bin
from singleshot.metrics.rows import rows_from_probs
from singleshot.metrics.state import AdditiveState, Layout, Options
from singleshot.uncertainty import MEASURES, normalized_variance, predictive_mean


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

    Args:
        bins: equal-width bins (lo, hi] of the normalized variance.
        measure: the disagreement measure, see :func:`singleshot.normalized_variance`.

    The state is made of sums: it merges, saves and reduces across processes as `Calibration` does.

    >>> agree = torch.tensor([[[5.0, 0.0]], [[5.0, 0.0]]])
    >>> histogram = VarianceHistogram(bins=2)
    >>> histogram.update(logits=agree, labels=torch.tensor([0]))
    >>> histogram.compute().accuracy
    tensor([1., nan], dtype=torch.float64)
    """

    format_name = "variance_histogram"

    def __init__(self, bins: int = 20, *, measure: str = "bhattacharyya") -> None:
        super().__init__({"bins": bins, "measure": measure})

    @classmethod
    def from_dict(cls, content: Any) -> VarianceHistogram:
        """The state that `to_dict` wrote; 0.1 called the measure ``kind``."""
        if isinstance(content, dict) and isinstance(content.get("options"), dict) and "kind" in content["options"]:
            options = {"measure" if name == "kind" else name: value for name, value in content["options"].items()}
            content = {**content, "options": options}
        return super().from_dict(content)

    @staticmethod
    def _layout(options: Options) -> Layout:
        bins = check_size("bins", options["bins"], least=1)
        check_choice("measure", options["measure"], tuple(MEASURES))
        return {
            "count": ((bins,), torch.int64),
            "correct": ((bins,), torch.int64),
            "score": ((bins,), torch.float64),
        }

    def _is_plausible(self) -> bool:
        return bins_are_plausible(self._sums["count"], self._sums["correct"], self._sums["score"])

    @torch.no_grad()
    def update(self, *, logits: Tensor | np.ndarray, labels: Tensor | np.ndarray) -> None:
        """Add T stochastic passes (T, B, C) over one batch with labels (B,). A bad batch adds nothing."""
        logits = as_tensor(logits, "logits")
        check_logits(logits, ("(T, B, C)",))
        target = check_labels(as_tensor(labels, "labels"), *logits.shape[1:]).to(logits.device)
        bins = int(self._options["bins"])
        index = bin_index(normalized_variance(logits, str(self._options["measure"])).cpu(), bins)
        rows = rows_from_probs(predictive_mean(logits), target)
        batch = VarianceHistogram._with_options(self._options)
        batch._sums["count"] = sum_by_bin(index, bins)
        batch._sums["correct"] = sum_by_bin(index[rows.correct.cpu()], bins)
        batch._sums["score"] = sum_by_bin(index, bins, rows.confidence.cpu())
        self.merge(batch)

    def compute(self) -> VarianceBins:
        """The histogram of all examples so far."""
        count = self._sums["count"]
        if not int(count.sum()):
            raise ValueError("there is nothing to compute yet: update the VarianceHistogram with at least one example")
        edges = bin_edges(int(self._options["bins"]))
        return VarianceBins(
            lower=edges[:-1],
            upper=edges[1:],
            count=count.clone(),
            accuracy=self._sums["correct"] / count.double(),
            score=self._sums["score"] / count.double(),
            coverage=count.cumsum(0).double() / count.sum(),
        )
