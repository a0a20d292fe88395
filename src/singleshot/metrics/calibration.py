"""The calibration of a classifier from O(bins) sums, whatever the number of examples."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor

from singleshot.metrics.binning import bin_edges, bin_index, sum_by_bin
from singleshot.metrics.result import Bins, CalibrationResult
from singleshot.metrics.rows import rows_from_logits, rows_from_probs
from singleshot.metrics.state import AdditiveState
from singleshot.uncertainty import at_least_float32

CHUNK_ELEMENTS = 2**19
"""Scores worked on at a time: 2 MB of float32 stay in a core's cache, and memory does not grow with the data."""


class Calibration(AdditiveState):
    """How far a classifier's confidence can be trusted: feed it batches, ask it once.

    The state is a handful of float64 and int64 sums per bin. It is fed with ``logits=`` or ``probs=``, by name and
    never by guess; it merges with others, saves to JSON, and reduces across processes.

    Args:
        bins: equal-width bins (lo, hi] of the top-1 confidence; confidence 0 counts in the first, 1 in the last.
        classwise: also bin the probability of every class, for the classwise ECE; sums grow to bins × classes.

    >>> calibration = Calibration(bins=20)
    >>> calibration.update(probs=torch.tensor([[0.9, 0.1], [0.3, 0.7]]), labels=torch.tensor([0, 0]))
    >>> result = calibration.compute()
    >>> result.accuracy, round(result.ece, 6)
    (0.5, 0.4)
    """

    kind = "calibration"

    def __init__(self, bins: int = 20, *, classwise: bool = False) -> None:
        if bins < 1:
            raise ValueError(f"bins must be at least 1, got {bins}")
        sizes = {"bins": bins, "classes": 0} if classwise else {"bins": bins}  # classes are learned from the data
        super().__init__(sizes)

    @staticmethod
    def _zero_sums(sizes: dict[str, int]) -> dict[str, Tensor]:
        bins = sizes["bins"]
        sums = {
            "count": torch.zeros(bins, dtype=torch.int64),
            "correct": torch.zeros(bins, dtype=torch.int64),
            "confidence": torch.zeros(bins, dtype=torch.float64),
            "nll": torch.zeros((), dtype=torch.float64),
            "brier": torch.zeros((), dtype=torch.float64),
        }
        if "classes" in sizes:
            classes = sizes["classes"]
            sums["class_count"] = torch.zeros(classes, bins, dtype=torch.int64)
            sums["class_correct"] = torch.zeros(classes, bins, dtype=torch.int64)
            sums["class_probability"] = torch.zeros(classes, bins, dtype=torch.float64)
        return sums

    def update(
        self,
        *,
        logits: Tensor | np.ndarray | None = None,
        probs: Tensor | np.ndarray | None = None,
        labels: Tensor | np.ndarray,
    ) -> None:
        """Add a batch: scores (N, C), as logits or as probabilities, and labels (N,). A bad batch adds nothing."""
        if (logits is None) == (probs is None):
            raise ValueError("update takes either logits= or probs=, and labels=")
        name, given = ("logits", logits) if logits is not None else ("probs", probs)
        scores, target = _checked(name, _as_tensor(given), _as_tensor(labels))
        if not len(scores):
            return
        batch = self._empty_twin(scores.shape[1])  # whole or not at all: a bad row must not leave half a batch behind
        rows = max(1, CHUNK_ELEMENTS // scores.shape[1])
        for first in range(0, len(scores), rows):
            batch._add(name, scores[first : first + rows], target[first : first + rows].to(scores.device), first)
        self.merge(batch)

    def compute(self) -> CalibrationResult:
        """Every metric, from the sums so far."""
        bins, sums = self._sizes["bins"], self._sums
        total = int(sums["count"].sum())
        if not total:
            raise ValueError("there is nothing to compute yet: update the Calibration with at least one example")
        edges = bin_edges(bins)
        count = sums["count"].double()
        classwise = None
        if "class_count" in sums:
            gaps = (sums["class_correct"] - sums["class_probability"]).abs().sum(1) / total
            classwise = float(gaps.mean())
        return CalibrationResult(
            count=total,
            accuracy=int(sums["correct"].sum()) / total,
            mean_confidence=float(sums["confidence"].sum()) / total,
            nll=float(sums["nll"]) / total,
            brier=float(sums["brier"]) / total,
            classwise_ece=classwise,
            bins=Bins(
                lower=edges[:-1],
                upper=edges[1:],
                count=sums["count"].clone(),
                confidence=sums["confidence"] / count,  # 0/0: an empty bin has no confidence and no accuracy
                accuracy=sums["correct"] / count,
            ),
        )

    def _empty_twin(self, classes: int) -> Calibration:
        return Calibration._of_sizes({name: classes if name == "classes" else n for name, n in self._sizes.items()})

    def _add(self, name: str, scores: Tensor, labels: Tensor, first_row: int) -> None:
        bins, sums = self._sizes["bins"], self._sums
        wide = at_least_float32(scores)
        read = rows_from_logits if name == "logits" else rows_from_probs
        # Binned on the CPU: its sums are the same on every run, and not every accelerator has float64.
        confidence, correct, nll, brier = (values.cpu() for values in read(wide, labels, first_row))
        given = confidence.to(scores.dtype) if name == "probs" else confidence  # half-precision bins have rounded edges
        index = bin_index(given, bins)
        sums["count"] += sum_by_bin(index, bins)
        sums["correct"] += sum_by_bin(index[correct], bins)
        sums["confidence"] += sum_by_bin(index, bins, confidence)
        sums["nll"] += nll.sum(dtype=torch.float64)
        sums["brier"] += brier.sum(dtype=torch.float64)
        if "class_count" in sums:
            self._add_classwise((wide.softmax(1) if name == "logits" else scores).cpu(), labels.cpu())

    def _add_classwise(self, probs: Tensor, labels: Tensor) -> None:
        """Bin every probability of every class, sorting only those above the first bin.

        A row sums to 1, so fewer than ``bins`` of its probabilities lie above 1 / bins: the first bin, which has nearly
        all of them, gets what the others leave of the totals.
        """
        bins, classes = self._sizes["bins"], probs.shape[1]
        cells = classes * bins
        flat = probs.flatten()
        above = (flat > bin_edges(bins)[1].to(probs)).nonzero().squeeze(1)
        cell = bin_index(flat[above], bins) + above % classes * bins
        count = sum_by_bin(cell, cells).view(classes, bins)
        probability = sum_by_bin(cell, cells, flat[above]).view(classes, bins)
        count[:, 0] += len(probs) - count.sum(1)
        probability[:, 0] += (probs.sum(0, dtype=torch.float64) - probability.sum(1)).clamp(min=0)
        label_prob = probs.gather(1, labels.unsqueeze(1)).squeeze(1)
        label_cell = bin_index(label_prob, bins) + labels * bins
        self._sums["class_count"] += count
        self._sums["class_probability"] += probability
        self._sums["class_correct"] += sum_by_bin(label_cell, cells).view(classes, bins)


def _as_tensor(values: object) -> Tensor:
    with warnings.catch_warnings():  # a memory-mapped array is read-only, and only read here
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.as_tensor(values).detach()


def _checked(name: str, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    if scores.ndim != 2 or not scores.shape[1]:
        raise ValueError(f"{name} must have shape (N, C), one row per example, got {tuple(scores.shape)}")
    if not scores.is_floating_point():
        raise ValueError(f"{name} must be floating point, got {scores.dtype}")
    if labels.shape != scores.shape[:1]:
        raise ValueError(f"labels must have shape ({len(scores)},), one per row of {name}, got {tuple(labels.shape)}")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ValueError(f"labels must be integer class indices, got {labels.dtype}")
    labels = labels.long()
    if len(labels) and (int(labels.min()) < 0 or int(labels.max()) >= scores.shape[1]):
        row = int(((labels < 0) | (labels >= scores.shape[1])).int().argmax())
        raise ValueError(
            f"labels must lie in [0, {scores.shape[1]}), the classes of {name}; labels[{row}] is {int(labels[row])}"
        )
    return scores, labels
