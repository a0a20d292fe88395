"""The numbers behind a calibration: the bins, and every metric that follows from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


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
