"""Histogram binning: a confidence becomes the frequency with which such confidences were right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
from torch import Tensor

from singleshot.common.checks import check_choice, check_size
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

Kind = Literal["top_label", "one_vs_rest"]
KINDS = ("top_label", "one_vs_rest")
MISSING = "their frequency is 0 in every bin, so next to nothing is left of them"
MISSING_TOP = "predictions of them count as wrong here, and where they are right the confidence comes out too low"


@dataclass(frozen=True, eq=False)
class HistogramBinning(Scaling):
    """Sorts confidences into bins of equally many examples and gives each the frequency seen in its bin.

    ``top_label``: the predicted class gets its bin's accuracy, and the others share the rest in their proportions.
    ``one_vs_rest``: each class gets the frequency of its own bin, and then the classes are made to sum to 1.
    The result is log-probabilities; none is −∞ (see ``log_probs_above_zero``: one imagined example is shared among the
    classes). The prediction may change, where a bin was seldom right. Half precision comes back as float32.
    """

    method: ClassVar[str] = "histogram"

    edges: tuple[Tensor, ...]  # inner edges of the bins, in rising order: one set, or one for each class
    values: tuple[Tensor, ...]  # the frequency in each bin: one more than there are edges
    examples: int  # how many the bins were filled with
    classes: int
    kind: Kind = "top_label"

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_size("examples", self.examples, 1)
        check_size("classes", self.classes, 1)
        sets = 1 if self.kind == "top_label" else self.classes
        if not len(self.edges) == len(self.values) == sets:
            raise ValueError(
                f"{self.kind} binning of {self.classes} classes must have {sets} sets of edges and values, got "
                f"{len(self.edges)} and {len(self.values)}"
            )
        for index, (edges, values) in enumerate(zip(self.edges, self.values, strict=True)):
            if len(values) != len(edges) + 1 or (edges.diff() <= 0).any():
                raise ValueError(f"edges[{index}] must rise, and values[{index}] be one more than they are")
            if values.min() < 0 or values.max() > 1:
                raise ValueError(f"values[{index}] must lie in [0, 1]")

    @classmethod
    @torch.no_grad()
    def fit(cls, logits: Tensor, labels: Tensor, *, bins: int = 15, kind: Kind = "top_label") -> HistogramBinning:
        """The bins and their frequencies for logits (N, C) and labels (N,); fewer bins where confidences are tied."""
        check_choice("kind", kind, KINDS)
        bins = check_size("bins", bins, 1)
        logits, labels = fitting_set(logits, labels)
        probs, classes = double_probs(logits), logits.shape[1]
        warn_of_missing_classes(labels, classes, MISSING_TOP if kind == "top_label" else MISSING)
        if kind == "top_label":
            confidence, predicted = probs.max(1)
            filled = [_filled_bins(confidence, predicted == labels, bins)]
        else:
            filled = [_filled_bins(probs[:, index], labels == index, bins) for index in range(classes)]
        edges, values = zip(*filled, strict=True)
        return cls(edges, values, len(labels), classes, kind)

    def __call__(self, logits: Tensor) -> Tensor:
        """Log-probabilities of logits (..., C)."""
        check_classes(logits, self.classes)
        probs = double_probs(logits)
        if self.kind == "top_label":
            confidence, predicted = probs.max(-1, keepdim=True)
            top = self._frequency(0, confidence)
            others = logits.double().scatter(-1, predicted, -torch.inf)
            shares = torch.softmax(others, -1) if self.classes > 1 else torch.zeros_like(others)
            frequencies = ((1 - top) * shares).scatter(-1, predicted, top)
        else:
            frequencies = torch.stack([self._frequency(c, p) for c, p in enumerate(probs.unbind(-1))], -1)
        return in_dtype_of(logits, log_probs_above_zero(frequencies, probs, self.examples))

    def _frequency(self, which: int, at: Tensor) -> Tensor:
        return self.values[which].to(at)[torch.searchsorted(self.edges[which].to(at), at.contiguous())]

    def parameters(self) -> dict[str, object]:
        """Edges and frequencies of the bins."""
        return {
            "edges": [edges.tolist() for edges in self.edges],
            "values": [values.tolist() for values in self.values],
            "examples": self.examples,
            "classes": self.classes,
            "kind": self.kind,
        }

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> HistogramBinning:
        """From a file's content."""
        check_names(parameters, ("edges", "values", "examples", "classes", "kind"))
        edges, values = (
            tuple(torch.tensor(row, dtype=torch.float64) for row in rows_of_numbers(parameters, name))
            for name in ("edges", "values")
        )
        for name in ("examples", "classes"):
            number(parameters, name)
        return cls(edges, values, parameters["examples"], parameters["classes"], cast(Kind, parameters["kind"]))


def _filled_bins(confidence: Tensor, happened: Tensor, bins: int) -> tuple[Tensor, Tensor]:
    """Edges halfway between neighbouring confidences, so that rounding moves no example, and what share happened."""
    order = np.argsort(confidence.cpu().numpy(), kind="stable")
    ordered, outcome = confidence.cpu().numpy()[order], happened.cpu().numpy()[order].astype(np.float64)
    ends = np.arange(1, bins) * len(ordered) // bins  # how many examples each bin's end has on its left
    ends = ends[(ends > 0) & (ends < len(ordered))]
    ends = np.unique(np.searchsorted(ordered, ordered[ends], side="left"))  # tied examples stay together
    starts = np.concatenate([[0], ends[ends > 0]])
    edges = (ordered[starts[1:] - 1] + ordered[starts[1:]]) / 2
    counts = np.diff(np.append(starts, len(ordered)))
    return torch.from_numpy(edges), torch.from_numpy(np.add.reduceat(outcome, starts) / counts)
