"""The numbers behind a calibration: the bins, and every metric that follows from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from singleshot.common.checks import check_size
from singleshot.metrics.binning import bin_edges, bin_index, bins_are_plausible, sum_by_bin
from singleshot.metrics.classwise import ClassCells
from singleshot.metrics.rows import ScoredBatch
from singleshot.metrics.state import AdditiveState, Layout, Options


@dataclass(frozen=True, eq=False)
class Bins:
    """A reliability diagram as numbers, each field of shape (bins,); an empty bin has NaN confidence and accuracy."""

    lower: Tensor
    upper: Tensor
    count: Tensor
    confidence: Tensor
    accuracy: Tensor

    @property
    def gap(self) -> Tensor:
        """Mean confidence minus accuracy: positive where the classifier is overconfident, 0 in empty bins."""
        return (self.confidence - self.accuracy).nan_to_num(0.0)

    @property
    def share(self) -> Tensor:
        """Each bin's share of the examples."""
        return self.count.double() / self.count.sum()

    def coverage(self) -> Tensor:
        """At each bin's lower edge τ: the share of examples with confidence > τ in a bin whose accuracy is > τ.

        Thresholds are bin edges, where the bins know the answer exactly; more bins give more thresholds.
        """
        reliable = self.accuracy.unsqueeze(0) > self.lower.unsqueeze(1)  # (threshold, bin); NaN is never reliable
        confident = self.lower.unsqueeze(0) >= self.lower.unsqueeze(1)
        return (self.share * (reliable & confident)).sum(1)


@dataclass(frozen=True, eq=False)
class CalibrationResult:
    """What a `Calibration` computes."""

    count: int
    accuracy: float  # share of examples whose predicted class is the label
    mean_confidence: float  # average confidence in the predicted class
    nll: float
    brier: float
    classwise_ece: float | None
    bins: Bins = field(repr=False)

    @property
    def ece(self) -> float:
        """Expected calibration error: the average over examples of their bin's |confidence − accuracy|."""
        return float((self.bins.share * self.bins.gap.abs()).sum())

    @property
    def rmsce(self) -> float:
        """Root-mean-square calibration error: as the ECE, with squares."""
        return math.sqrt(float((self.bins.share * self.bins.gap.square()).sum()))

    @property
    def mce(self) -> float:
        """Maximum calibration error: the worst bin's |confidence − accuracy|."""
        return float(self.bins.gap.abs().max())

    @property
    def overconfidence(self) -> float:
        """The part of the ECE from bins whose confidence is above their accuracy."""
        return float((self.bins.share * self.bins.gap.clamp(min=0)).sum())

    @property
    def underconfidence(self) -> float:
        """The part of the ECE from bins whose confidence is below their accuracy."""
        return float((self.bins.share * -self.bins.gap.clamp(max=0)).sum())

    def metrics(self) -> dict[str, float]:
        """Every metric by name; the classwise ECE only where it was asked for."""
        names = [
            "accuracy",
            "ece",
            "mce",
            "rmsce",
            "nll",
            "brier",
            "mean_confidence",
            "overconfidence",
            "underconfidence",
        ]
        found = {name: float(getattr(self, name)) for name in names}
        if self.classwise_ece is not None:
            found["classwise_ece"] = self.classwise_ece
        return found

    def to_dict(self) -> dict[str, Any]:
        """Metrics, count and bins as plain lists and numbers, ready for JSON; what is not finite becomes None."""
        bins = {
            name: _plain(getattr(self.bins, name)) for name in ("lower", "upper", "count", "confidence", "accuracy")
        }
        metrics = {name: value if math.isfinite(value) else None for name, value in self.metrics().items()}
        return {"count": self.count, **metrics, "bins": bins}


def _plain(values: Tensor) -> list[float | int | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]


CLASS_SUMS = ("class_count", "class_correct", "class_probability")


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

    format_name = "calibration"

    def __init__(self, bins: int = 20, *, classwise: bool = False) -> None:
        super().__init__({"bins": bins, "classes": 0} if classwise else {"bins": bins})

    @staticmethod
    def _layout(options: Options) -> Layout:
        bins = check_size("bins", options["bins"], least=1)
        per_bin: Layout = {
            "count": ((bins,), torch.int64),
            "correct": ((bins,), torch.int64),
            "confidence": ((bins,), torch.float64),
            "nll": ((), torch.float64),
            "brier": ((), torch.float64),
        }
        if "classes" not in options:
            return per_bin
        classes = check_size("classes", options["classes"], least=0)
        return {
            **per_bin,
            "class_count": ((classes, bins), torch.int64),
            "class_correct": ((classes, bins), torch.int64),
            "class_probability": ((classes, bins), torch.float64),
        }

    def _is_plausible(self) -> bool:
        sums = self._sums
        plausible = bins_are_plausible(sums["count"], sums["correct"], sums["confidence"])
        if "class_count" in sums:
            plausible &= bins_are_plausible(sums["class_count"], sums["class_correct"], sums["class_probability"])
        return plausible

    def update(
        self,
        *,
        logits: Any = None,
        probs: Any = None,
        labels: Any,
    ) -> None:
        """Add scores (N, C), given as logits or as probabilities, and labels (N,). An invalid batch adds nothing."""
        self.add(ScoredBatch.of(logits=logits, probs=probs, labels=labels))

    def add(self, batch: ScoredBatch) -> None:
        """Add a batch that is validated and reduced already."""
        options = dict(self._options)
        if "classes" in options:
            options["classes"] = batch.scores.shape[1]
        added = Calibration._with_options(options)
        for chunk in batch.chunks():
            added._add_chunk(chunk)
        self.merge(added)

    def compute(self) -> CalibrationResult:
        """Every metric, from the sums so far."""
        bins, sums = int(self._options["bins"]), self._sums
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

    def _add_chunk(self, batch: ScoredBatch) -> None:
        bins, sums = int(self._options["bins"]), self._sums
        index = bin_index(batch.confidence, bins)
        sums["count"] += sum_by_bin(index, bins)
        sums["correct"] += sum_by_bin(index[batch.correct], bins)
        sums["confidence"] += sum_by_bin(index, bins, batch.confidence)
        sums["nll"] += batch.nll.sum(dtype=torch.float64)
        sums["brier"] += batch.brier.sum(dtype=torch.float64)
        if "class_count" in sums:
            cells = ClassCells(*(sums[name].unsqueeze(0) for name in CLASS_SUMS))  # views: added in place
            cells.add(batch.probs(), batch.labels)
