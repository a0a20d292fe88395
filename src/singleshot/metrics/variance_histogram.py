"""The variance–accuracy histogram of the paper's Fig. 2: accuracy and score by disagreement of the passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from singleshot.common.checks import as_tensor, check_choice, check_labels, check_passes, check_size
from singleshot.metrics.additive_state import AdditiveState, Layout, Options
from singleshot.metrics.binning import bin_edges, bin_index, bins_are_plausible, sum_by_bin
from singleshot.metrics.reduction import reduce_probs
from singleshot.uncertainty import MEASURES, apply_measure, log_probabilities


@dataclass(frozen=True, eq=False)
class VarianceBins:
    """Per bin of the normalized variance, of shape (bins,); accuracy and score of an empty bin are NaN."""

    lower: Tensor
    upper: Tensor
    count: Tensor
    accuracy: Tensor  # of the mean prediction
    score: Tensor  # mean confidence of the mean prediction
    coverage: Tensor  # share of examples in this bin and below


class VarianceHistogram(AdditiveState):
    """Accuracy and score of the mean prediction, per bin of the normalized variance.

    Like `Calibration`, the state merges, saves and reduces across processes.

    Args:
        bins: number of equal-width bins (lo, hi] of the normalized variance.
        measure: the disagreement measure, see :func:`singleshot.normalized_variance`.

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
        """Restore a state from `to_dict`; in files of version 0.1 the measure is called ``kind``."""
        if isinstance(content, dict) and isinstance(content.get("options"), dict) and "kind" in content["options"]:
            options = {"measure" if name == "kind" else name: value for name, value in content["options"].items()}
            content = {**content, "options": options}
        return super().from_dict(content)

    @staticmethod
    def _layout(options: Options) -> Layout:
        bins = check_size("bins", options["bins"], least=1)
        check_choice("measure", options["measure"], tuple(MEASURES))
        shape = (bins,)
        return {"count": (shape, torch.int64), "correct": (shape, torch.int64), "score": (shape, torch.float64)}

    def _is_plausible(self) -> bool:
        return bins_are_plausible(self._sums["count"], self._sums["correct"], self._sums["score"])

    @torch.no_grad()
    def update(self, *, logits: Any, labels: Any) -> None:
        """Add T stochastic passes (T, B, C) over a batch with labels (B,). An invalid batch adds nothing."""
        log_probs = log_probabilities(as_tensor(logits, "logits"))
        labels = check_labels(as_tensor(labels, "labels"), *log_probs.shape[1:]).to(log_probs.device)
        check_passes(log_probs)
        bins = int(self._options["bins"])
        index = bin_index(apply_measure(MEASURES[str(self._options["measure"])], log_probs).cpu(), bins)
        confidence, correct, *_ = reduce_probs(log_probs.exp().mean(0), labels)
        self._sums["count"] += sum_by_bin(index, bins)
        self._sums["correct"] += sum_by_bin(index[correct.cpu()], bins)
        self._sums["score"] += sum_by_bin(index, bins, confidence.cpu())

    def compute(self) -> VarianceBins:
        """Compute the histogram of the examples so far."""
        count = self._sums["count"]
        if not int(count.sum()):
            raise ValueError("nothing to compute yet: update the VarianceHistogram with at least one example")
        edges = bin_edges(len(count))
        return VarianceBins(
            lower=edges[:-1],
            upper=edges[1:],
            count=count.clone(),
            accuracy=self._sums["correct"] / count.double(),
            score=self._sums["score"] / count.double(),
            coverage=count.cumsum(0).double() / count.sum(),
        )
