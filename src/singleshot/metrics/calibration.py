"""The calibration state, and every metric that is computed from its bins."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from singleshot.common.checks import check_size
from singleshot.common.text import jsonable
from singleshot.metrics.additive_state import AdditiveState, Layout, Options
from singleshot.metrics.binning import bin_edges, bin_index, bins_are_plausible, sum_by_bin
from singleshot.metrics.classwise import ClassCells
from singleshot.metrics.examples import ScoredBatch

CLASS_SUMS = ("class_count", "class_correct", "class_probability")


@dataclass(frozen=True, eq=False)
class Bins:
    """A reliability diagram as numbers of shape (bins,); confidence and accuracy of an empty bin are NaN."""

    lower: Tensor
    upper: Tensor
    count: Tensor
    confidence: Tensor
    accuracy: Tensor

    @property
    def gap(self) -> Tensor:
        """Mean confidence minus accuracy: positive if overconfident, 0 in empty bins."""
        return (self.confidence - self.accuracy).nan_to_num(0.0)

    @property
    def share(self) -> Tensor:
        """Share of the examples in each bin."""
        return self.count.double() / self.count.sum()

    def coverage(self) -> Tensor:
        """Share of examples with confidence > τ in a bin with accuracy > τ, at each bin's lower edge τ.

        Bin edges are the thresholds at which the bins give an exact answer; use more bins for more thresholds.
        """
        reliable = self.accuracy.unsqueeze(0) > self.lower.unsqueeze(1)  # (threshold, bin); NaN is never reliable
        confident = self.lower.unsqueeze(0) >= self.lower.unsqueeze(1)
        return (self.share * (reliable & confident)).sum(1)


@dataclass(frozen=True, eq=False, repr=False)
class CalibrationResult:
    """The metrics of a `Calibration`. ``print`` and notebooks show all of them.

    >>> calibration = Calibration(bins=2)
    >>> calibration.update(probs=[[0.9, 0.1], [0.3, 0.7]], labels=[0, 0])
    >>> result = calibration.compute()
    >>> result.count, result.accuracy, round(result.ece, 6), result.bins.count
    (2, 0.5, 0.3, tensor([0, 2]))
    """

    count: int
    accuracy: float
    mean_confidence: float
    nll: float
    brier: float
    classwise_ece: float | None
    bins: Bins

    @property
    def ece(self) -> float:
        """Expected calibration error: the mean |confidence − accuracy| of the bins, weighted by their examples."""
        return float((self.bins.share * self.bins.gap.abs()).sum())

    @property
    def rmsce(self) -> float:
        """Root-mean-square calibration error: the ECE with squares."""
        return math.sqrt(float((self.bins.share * self.bins.gap.square()).sum()))

    @property
    def mce(self) -> float:
        """Maximum calibration error: the largest |confidence − accuracy| of a bin."""
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
        """Return every metric by name; the classwise ECE only if it was requested.

        NLL and Brier score are missing if only the confidence of the predicted class is known.
        """
        names = ("accuracy", "ece", "mce", "rmsce", "nll", "brier", "mean_confidence", "overconfidence")
        found = {name: getattr(self, name) for name in (*names, "underconfidence", "classwise_ece")}
        return {name: value for name, value in found.items() if value is not None and not math.isnan(value)}

    def to_dict(self) -> dict[str, Any]:
        """Return count, metrics and bins as plain values for JSON; NaN and infinity become None."""
        return dict(jsonable({"count": self.count, **self.metrics(), "bins": self.bins}))

    def __repr__(self) -> str:
        title = f"Calibration of {self.count:,} examples in {len(self.bins.count)} bins"
        shown = {"ece": self.ece, **self.metrics()}
        return "\n".join([title, *(f"  {name:<15}  {value:.4f}" for name, value in shown.items())])


class Calibration(AdditiveState):
    """Calibration metrics of a classifier from batches of predictions.

    The state is a few sums per bin. It merges with other states, reduces across processes and saves to JSON.

    Args:
        bins: number of equal-width bins (lo, hi] of the top-1 confidence.
        classwise: also bin the probability of every class for the classwise ECE, which takes bins × classes sums.

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
        layout: Layout = {
            "count": ((bins,), torch.int64),
            "correct": ((bins,), torch.int64),
            "confidence": ((bins,), torch.float64),
            "nll": ((), torch.float64),
            "brier": ((), torch.float64),
        }
        if "classes" in options:
            shape = (check_size("classes", options["classes"], least=0), bins)
            dtypes = (torch.int64, torch.int64, torch.float64)
            layout |= {name: (shape, dtype) for name, dtype in zip(CLASS_SUMS, dtypes, strict=True)}
        return layout

    def _is_plausible(self) -> bool:
        sums = self._sums
        plausible = bins_are_plausible(sums["count"], sums["correct"], sums["confidence"])
        examples = int(sums["count"].sum())
        # The Brier score of one example is at most 2, and a little more if its probabilities are rounded.
        nll, brier = float(sums["nll"]), float(sums["brier"])
        if not (math.isnan(nll) and math.isnan(brier) and examples):  # only the confidences are known
            plausible &= nll >= 0 and brier <= 2.01 * examples and (examples > 0 or nll == 0)
        return plausible and ("class_count" not in sums or bins_are_plausible(*(sums[name] for name in CLASS_SUMS)))

    def update(
        self,
        *,
        logits: Any = None,
        probs: Any = None,
        labels: Any,
        ignore_index: Any = None,  # Any, so that `update(**batch)` of a dict of arrays passes a type checker
        classes: Any = None,
    ) -> None:
        """Add scores, given as logits or as probabilities, and labels. An invalid batch adds nothing.

        Tensors, numpy arrays, pandas objects and lists are accepted.

        Args:
            logits: (N, C); (N, C, ...) with one label per position; or (N,) or (N, 1) of a binary classifier.
            probs: probabilities of the same shapes; those of a binary classifier are of class 1.
            labels: (N,) or (N, ...) class indices; of a binary classifier also booleans.
            ignore_index: label of the examples to leave out.
            classes: names of the classes in the order of the scores; the labels are then names, too.

        >>> calibration = Calibration()
        >>> calibration.update(probs=[0.9, 0.3], labels=["yes", "no"], classes=["no", "yes"])
        >>> calibration.compute().accuracy
        1.0
        """
        layout = {"ignore_index": ignore_index, "classes": classes}
        self._add_parts(*ScoredBatch.stream(logits=logits, probs=probs, labels=labels, **layout))

    def add(self, batch: ScoredBatch) -> None:
        """Add a batch that is validated and reduced already."""
        self._add_parts(batch.scores.shape[1], batch.chunks())

    def _add_parts(self, classes: int, parts: Iterator[ScoredBatch]) -> None:
        options = dict(self._options)
        if "classes" in options:
            options["classes"] = classes
        added = Calibration._with_options(options)  # an error in a later part must not leave the first ones
        for part in parts:
            added._add_part(part)
        self.merge(added)

    def _add_part(self, batch: ScoredBatch) -> None:
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

    def compute(self) -> CalibrationResult:
        """Compute every metric from the examples so far."""
        sums = self._sums
        total, count = int(sums["count"].sum()), sums["count"].double()
        if not total:
            raise ValueError("nothing to compute yet: update the Calibration with at least one example")
        classwise = None
        if "class_count" in sums:
            classwise = float(((sums["class_correct"] - sums["class_probability"]).abs().sum(1) / total).mean())
        edges = bin_edges(len(count))
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
                confidence=sums["confidence"] / count,  # NaN for an empty bin
                accuracy=sums["correct"] / count,
            ),
        )
