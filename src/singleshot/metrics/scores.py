"""A batch of scores and labels as callers give it: told apart by name, checked, and cut into pieces for the cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from torch import Tensor

from singleshot.checks import (
    FINITE,
    PROBABILITIES,
    as_tensor,
    check_labels,
    check_rows,
    check_scores,
    finite_rows,
    probability_rows,
)
from singleshot.metrics.rows import Rows, rows_from_logits, rows_from_probs
from singleshot.uncertainty import at_least_float32

CHUNK_ELEMENTS = 2**19
"""Scores worked on at a time: 2 MB of float32 stay in a core's cache, and memory does not grow with the data."""


class Scores(NamedTuple):
    """Scores (N, C) of N examples, by the name they were given under, and their labels (N,) on the same device."""

    name: str  # "logits" or "probs"
    values: Tensor
    labels: Tensor

    @classmethod
    def given(
        cls,
        logits: Tensor | np.ndarray | None,
        probs: Tensor | np.ndarray | None,
        labels: Tensor | np.ndarray,
    ) -> Scores:
        """What was given as one of the two, checked as far as its shape and labels go."""
        if (logits is None) == (probs is None):
            raise ValueError("give either logits= or probs=, and labels=")
        name, given = ("logits", logits) if logits is not None else ("probs", probs)
        values = as_tensor(given, name)
        check_scores(values, ("(N, C)",), name=name)
        return cls(name, values, check_labels(as_tensor(labels, "labels"), *values.shape).to(values.device))

    def pieces(self) -> Iterator[Scores]:
        """The batch in pieces that stay in the cache, the rows of each checked before it is given out."""
        rows_are_fine, demand = (finite_rows, FINITE) if self.name == "logits" else (probability_rows, PROBABILITIES)
        rows = max(1, CHUNK_ELEMENTS // self.values.shape[1])
        for first in range(0, len(self.values), rows):
            part = self.values[first : first + rows]
            check_rows(part, rows_are_fine, demand, whole=self.values)
            yield Scores(self.name, part, self.labels[first : first + rows])

    def rows(self) -> Rows:
        """What each example contributes to the metrics, on the CPU.

        There sums are the same on every run, and not every accelerator has float64.
        """
        read = rows_from_logits if self.name == "logits" else rows_from_probs
        return Rows(*(values.cpu() for values in read(at_least_float32(self.values), self.labels)))

    def probs(self) -> Tensor:
        """The probability of every class, as given or from the logits."""
        return at_least_float32(self.values).softmax(1) if self.name == "logits" else self.values

    def as_given(self, confidence: Tensor) -> Tensor:
        """The confidence in the dtype of given probabilities: half-precision bins have rounded edges."""
        return confidence.to(self.values.dtype) if self.name == "probs" else confidence
