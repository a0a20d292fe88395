"""Isotonic regression, one class against the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from singleshot.common.checks import check_size
from singleshot.posthoc.scaling import (
    Scaling,
    check_classes,
    double_probs,
    fitting_set,
    in_dtype_of,
    log_probs_above_zero,
    warn_of_missing_classes,
)
from singleshot.posthoc.storage import check_names, number, rows_of_numbers

MISSING = "their frequency is 0 at every score, so next to nothing is left of them"


@dataclass(frozen=True, eq=False)
class IsotonicScaling(Scaling):
    """Maps each class's probability through a rising curve of its own, then makes the classes sum to 1.

    The curve of class c joins points (score, value) by straight lines and is level outside them. The result is
    log-probabilities; none is −∞ (see ``log_probs_above_zero``: one imagined example is shared among the classes).
    The prediction may change. Half precision comes back as float32.
    """

    method: ClassVar[str] = "isotonic"

    scores: tuple[Tensor, ...]  # for each class, probabilities in rising order
    values: tuple[Tensor, ...]  # for each class, the frequency of the class at those scores
    examples: int  # how many the curves were fitted to

    def __post_init__(self) -> None:
        check_size("examples", self.examples, 1)
        if len(self.scores) != len(self.values) or not self.scores:
            raise ValueError(f"scores and values must be one per class, got {len(self.scores)} and {len(self.values)}")
        for index, (scores, values) in enumerate(zip(self.scores, self.values, strict=True)):
            if not len(scores) or scores.shape != values.shape:
                raise ValueError(f"scores[{index}] and values[{index}] must be equally long, and at least 1")
            if (scores.diff() <= 0).any() or (values.diff() < 0).any():
                raise ValueError(f"scores[{index}] must rise, and values[{index}] must not fall")
            if values[0] < 0 or values[-1] > 1:
                raise ValueError(f"values[{index}] must lie in [0, 1]")

    @classmethod
    @torch.no_grad()
    def fit(cls, logits: Tensor, labels: Tensor) -> IsotonicScaling:
        """The rising curves nearest in squares to whether each label is the class, for logits (N, C), labels (N,)."""
        from sklearn.isotonic import IsotonicRegression

        logits, labels = fitting_set(logits, labels)
        warn_of_missing_classes(labels, logits.shape[1], MISSING)
        scores, values = [], []
        probs = double_probs(logits)
        for index in range(logits.shape[1]):
            curve = IsotonicRegression(y_min=0, y_max=1)
            curve.fit(probs[:, index].cpu().numpy(), (labels == index).double().cpu().numpy())
            scores.append(torch.from_numpy(curve.X_thresholds_).double())
            values.append(torch.from_numpy(curve.y_thresholds_).double())
        return cls(tuple(scores), tuple(values), len(labels))

    def __call__(self, logits: Tensor) -> Tensor:
        """Log-probabilities of logits (..., C)."""
        check_classes(logits, len(self.scores))
        probs = double_probs(logits)
        curves = zip(probs.unbind(-1), self.scores, self.values, strict=True)
        frequencies = torch.stack([_interpolated(p, scores.to(p), values.to(p)) for p, scores, values in curves], -1)
        return in_dtype_of(logits, log_probs_above_zero(frequencies, probs, self.examples))

    def parameters(self) -> dict[str, object]:
        """The points of each curve."""
        return {
            "scores": [scores.tolist() for scores in self.scores],
            "values": [values.tolist() for values in self.values],
            "examples": self.examples,
        }

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> IsotonicScaling:
        """From a file's content."""
        check_names(parameters, ("scores", "values", "examples"))
        scores, values = (
            tuple(torch.tensor(row, dtype=torch.float64) for row in rows_of_numbers(parameters, name))
            for name in ("scores", "values")
        )
        number(parameters, "examples")
        return cls(scores, values, check_size("examples", parameters["examples"], 1))


def _interpolated(at: Tensor, scores: Tensor, values: Tensor) -> Tensor:
    """The curve through the points at these places, level outside them."""
    if len(scores) == 1:
        return values.expand(at.shape)
    at = at.clamp(scores[0], scores[-1]).contiguous()
    right = torch.searchsorted(scores, at).clamp(min=1)
    left = right - 1
    share = (at - scores[left]) / (scores[right] - scores[left])
    return torch.lerp(values[left], values[right], share)
