"""The calibration of every label of a multi-label classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from singleshot.common.checks import FINITE, as_tensor, check_rows, check_scores, check_size, finite_rows, first_true
from singleshot.metrics.additive_state import AdditiveState, Layout, Options
from singleshot.metrics.binning import bin_edges, bin_index, bins_are_plausible, sum_by_bin
from singleshot.metrics.calibration import Bins
from singleshot.uncertainty import at_least_float32


@dataclass(frozen=True, eq=False)
class MultiLabelResult:
    """The metrics of a `MultiLabelCalibration`; tensors have one value per label."""

    count: Tensor  # examples whose label is known
    frequency: Tensor  # share of the examples that have the label
    mean_probability: Tensor
    brier: Tensor  # mean (p − [has the label])²
    bins: tuple[Bins, ...]  # per label: confidence is the mean probability of a bin, accuracy the label's frequency

    @property
    def ece(self) -> Tensor:
        """The expected calibration error of every label: mean |probability − frequency| of its bins, weighted."""
        return torch.stack([(bins.share * bins.gap.abs()).sum() for bins in self.bins])


class MultiLabelCalibration(AdditiveState):
    """Calibration of L labels that do not exclude each other, each with its own probability.

    The bins are those of the probability of a label, from 0 to 1, not of the confidence in the likelier answer.
    Like `Calibration`, the state merges with others, reduces across processes and saves to JSON.

    Args:
        bins: number of equal-width bins (lo, hi] of the probability.

    >>> calibration = MultiLabelCalibration(bins=10)
    >>> calibration.update(probs=[[0.9, 0.1], [0.9, 0.3]], labels=[[1, 0], [0, 0]])
    >>> calibration.compute().ece
    tensor([0.4000, 0.2000], dtype=torch.float64)
    """

    format_name = "multilabel_calibration"

    def __init__(self, bins: int = 20) -> None:
        super().__init__({"bins": bins, "classes": 0})

    @staticmethod
    def _layout(options: Options) -> Layout:
        bins = check_size("bins", options["bins"], least=1)
        labels = check_size("classes", options["classes"], least=0)
        cells = (labels, bins)
        return {
            "count": (cells, torch.int64),
            "positive": (cells, torch.int64),
            "probability": (cells, torch.float64),
            "brier": ((labels,), torch.float64),
        }

    def _is_plausible(self) -> bool:
        sums = self._sums
        return bins_are_plausible(sums["count"], sums["positive"], sums["probability"])

    def update(self, *, logits: Any = None, probs: Any = None, labels: Any, ignore_index: int | None = None) -> None:
        """Add scores (N, L), given as logits or as probabilities, and labels (N, L) of 0 and 1 or booleans.

        Labels equal to ``ignore_index`` are unknown and left out. An invalid batch adds nothing.
        """
        if (logits is None) == (probs is None):
            raise ValueError("pass either logits= or probs=, together with labels=")
        name = "logits" if probs is None else "probs"
        scores, labels = as_tensor(logits if probs is None else probs, name).cpu(), as_tensor(labels, "labels").cpu()
        check_scores(scores, ("(N, L)",), name=name)
        if labels.shape != scores.shape:
            raise ValueError(
                f"labels must have the shape of the {name}, {tuple(scores.shape)}, got {tuple(labels.shape)}"
            )
        check_rows(scores, finite_rows, FINITE.replace("logits", name))
        if probs is not None and not (scores.amin() >= 0 and scores.amax() <= 1):
            raise ValueError(f"probs must lie in [0, 1], got values from {scores.amin():g} to {scores.amax():g}")
        known = torch.ones_like(labels, dtype=torch.bool) if ignore_index is None else labels != ignore_index
        wrong = (known & (labels != 0) & (labels != 1)).flatten()
        if bool(wrong.any()):
            raise ValueError(f"labels must be 0 or 1, got {labels.flatten()[first_true(wrong)].item()!r}")
        self._add(at_least_float32(scores).sigmoid() if probs is None else at_least_float32(scores), labels, known)

    def _add(self, probs: Tensor, labels: Tensor, known: Tensor) -> None:
        bins, count = int(self._options["bins"]), probs.shape[1]
        added = type(self)._with_options({"bins": bins, "classes": count})
        cell = (torch.arange(count) * bins + bin_index(probs, bins))[known]
        value, target = probs[known].double(), labels[known].double()
        cells = count * bins
        added._sums = {
            "count": sum_by_bin(cell, cells).view(count, bins),
            "positive": sum_by_bin(cell[target == 1], cells).view(count, bins),
            "probability": sum_by_bin(cell, cells, value).view(count, bins),
            "brier": sum_by_bin(cell, cells, (value - target).square()).view(count, bins).sum(1),
        }
        self.merge(added)

    def compute(self) -> MultiLabelResult:
        """Compute the metrics of every label from the examples so far; NaN for a label without examples."""
        sums = {name: total.double() for name, total in self._sums.items()}  # torch divides integers in float32
        count = self._sums["count"].sum(1)
        if not int(count.sum()):
            raise ValueError("nothing to compute yet: update the MultiLabelCalibration with at least one example")
        edges = bin_edges(sums["count"].shape[1])
        bins = tuple(
            Bins(edges[:-1], edges[1:], size.long(), probability / size, positive / size)
            for size, positive, probability in zip(sums["count"], sums["positive"], sums["probability"], strict=True)
        )
        return MultiLabelResult(
            count=count,
            frequency=sums["positive"].sum(1) / count,
            mean_probability=sums["probability"].sum(1) / count,
            brier=sums["brier"] / count,
            bins=bins,
        )
