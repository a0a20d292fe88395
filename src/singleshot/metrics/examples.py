"""Per-example values that the metrics are computed from: confidence, correctness, NLL and Brier score."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from singleshot.common.checks import (
    FINITE,
    PROBABILITIES,
    check_rows,
    finite_rows,
    probability_rows,
)
from singleshot.common.layout import counted_examples
from singleshot.uncertainty import at_least_float32

Values = tuple[Tensor, Tensor, Tensor, Tensor]
"""Confidence, correctness, NLL and Brier score of N examples, each of shape (N,)."""
CHUNK_ELEMENTS = 2**19
"""Scores processed at a time: 2 MB of float32 stay in a core's cache, and temporaries do not grow with the data."""


@dataclass(frozen=True, eq=False)
class ScoredBatch:
    """A validated batch of scores and labels, reduced to the per-example values that every metric needs.

    Build it once per batch with `of` and pass it to the ``add`` method of `Calibration`, `ExampleGathering` and
    `ClasswiseGroups`. The per-example values are on the CPU, where sums are reproducible and float64 is available.

    >>> batch = ScoredBatch.of(probs=torch.tensor([[0.9, 0.1], [0.3, 0.7]]), labels=torch.tensor([0, 0]))
    >>> batch.confidence, batch.correct, batch.predicted()
    (tensor([0.9000, 0.7000]), tensor([ True, False]), tensor([0, 1]))
    """

    kind: Literal["logits", "probs"]  # what the scores are
    scores: Tensor  # (N, C) as given, on any device
    labels: Tensor  # (N,) int64, on the CPU
    confidence: Tensor  # (N,) probability of the predicted class; in the dtype of given probs, for exact bin edges
    correct: Tensor  # (N,) whether the predicted class, the first of the largest, is the label
    nll: Tensor  # (N,) −log p(y)
    brier: Tensor  # (N,) Σ_c (p(c) − [c = y])²

    @classmethod
    def of(
        cls,
        *,
        logits: Any = None,
        probs: Any = None,
        labels: Any,
        checked: bool = False,
        **layout: Any,
    ) -> ScoredBatch:
        """Validate and reduce scores (N, C), given as logits or as probabilities, and labels (N,).

        Tensors, numpy arrays, pandas objects and nested lists are accepted. Other layouts of scores and labels, and
        their options ``ignore_index`` and ``classes``, are those of `Calibration.update`. Set ``checked`` for scores
        that are known to be finite logits or probabilities.
        """
        if (logits is None) == (probs is None):
            raise ValueError("pass either logits= or probs=, together with labels=")
        kind: Literal["logits", "probs"] = "logits" if probs is None else "probs"
        given = logits if probs is None else probs
        scores, labels = counted_examples(given, labels, name=kind, **layout)
        on_device = labels.to(scores.device)
        valid_rows, requirement = (finite_rows, FINITE) if kind == "logits" else (probability_rows, PROBABILITIES)
        reduce = reduce_logits if kind == "logits" else reduce_probs
        parts = []
        for rows in _chunks(scores):
            if not checked:
                check_rows(scores[rows], valid_rows, requirement, whole=scores)
            parts.append(reduce(at_least_float32(scores[rows]), on_device[rows]))
        confidence, correct, nll, brier = (torch.cat(values).cpu() for values in zip(*parts, strict=True))
        if kind == "probs":
            confidence = confidence.to(scores.dtype)
        return cls(kind, scores, labels.cpu(), confidence, correct, nll, brier)

    def __len__(self) -> int:
        return len(self.labels)

    def chunks(self) -> Iterator[ScoredBatch]:
        """Split the batch into pieces whose scores fit into the cache."""
        for rows in _chunks(self.scores):
            values = (self.scores, self.labels, self.confidence, self.correct, self.nll, self.brier)
            yield ScoredBatch(self.kind, *(value[rows] for value in values))

    def probs(self) -> Tensor:
        """Return the probability of every class (N, C), on the CPU."""
        return (at_least_float32(self.scores).softmax(1) if self.kind == "logits" else self.scores).cpu()

    def predicted(self) -> Tensor:
        """Return the predicted class of each example (N,), on the CPU."""
        return self.scores.argmax(1).cpu()


def _chunks(scores: Tensor) -> Iterator[slice]:
    size = max(1, CHUNK_ELEMENTS // scores.shape[1])
    return (slice(first, first + size) for first in range(0, max(len(scores), 1), size))


FIELDS = ("confidence", "correct", "nll", "brier")


@dataclass(frozen=True, eq=False)
class Examples:
    """Four values per example (13 bytes from float32 scores), enough for intervals, tests and thresholds.

    >>> examples = Examples.of(probs=torch.tensor([[0.9, 0.1], [0.3, 0.7]]), labels=torch.tensor([0, 0]))
    >>> len(examples), examples.confidence, examples.correct
    (2, tensor([0.9000, 0.7000]), tensor([ True, False]))
    """

    confidence: Tensor  # (N,) as in `ScoredBatch`, and so are the next three
    correct: Tensor
    nll: Tensor
    brier: Tensor
    labels_digest: str = ""  # of the labels in order, to recognise the same data; empty if unknown

    def __post_init__(self) -> None:
        shapes = {name: tuple(getattr(self, name).shape) for name in FIELDS}
        if len(set(shapes.values())) != 1 or len(self.confidence.shape) != 1 or not len(self.confidence):
            raise ValueError(f"Examples need fields of one shape (N,) with at least one example, got {shapes}")

    def __len__(self) -> int:
        return len(self.confidence)

    def has_labels_of(self, other: Examples) -> bool:
        """Return whether both are predictions of the same examples in the same order, as far as the labels tell."""
        is_unknown = not (self.labels_digest and other.labels_digest)
        return len(self) == len(other) and (is_unknown or self.labels_digest == other.labels_digest)

    @classmethod
    def of(cls, *, logits: Any = None, probs: Any = None, labels: Any, **layout: Any) -> Examples:
        """Reduce scores (N, C), given as logits or as probabilities, and labels (N,); see also `ExampleGathering`.

        Other layouts and their options are those of `Calibration.update`.
        """
        gathering = ExampleGathering()
        gathering.add(ScoredBatch.of(logits=logits, probs=probs, labels=labels, **layout))
        return gathering.finish()


class ExampleGathering:
    """Collects `Examples` batch by batch without keeping the scores."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Tensor]] = {name: [] for name in FIELDS}
        self._digest = hashlib.blake2b(digest_size=16)

    def add(self, batch: ScoredBatch) -> None:
        """Add a batch."""
        for name, parts in self._parts.items():
            parts.append(getattr(batch, name))
        self._digest.update(batch.labels.numpy().tobytes())

    def finish(self) -> Examples:
        """Return all examples in order and release the batches."""
        if not self._parts.get("confidence"):
            raise ValueError("no examples yet: add at least one batch to the ExampleGathering")
        # One field at a time, to hold at most the result and the parts of one field in memory.
        joined = {name: torch.cat(self._parts.pop(name)) for name in FIELDS}
        return Examples(**joined, labels_digest=self._digest.hexdigest())


def reduce_logits(logits: Tensor, labels: Tensor) -> Values:
    """Per-example values of finite logits (N, C).

    Odds are relative to the largest logit and the label's odds are kept separate, so no step subtracts nearly equal
    numbers: NLL and Brier score stay accurate in float32 even if the label has nearly all the probability.
    """
    top = logits.amax(1)
    label_logit = logits.gather(1, labels.unsqueeze(1)).squeeze(1)
    label_odds = (label_logit - top).exp_()
    odds = (logits - top.unsqueeze(1)).exp_()
    odds[torch.arange(len(odds), device=odds.device), labels] = 0
    best_other = odds.amax(1)
    other_odds = odds.sum(1)
    total = label_odds + other_odds

    confidence = total.reciprocal()
    log_total = (other_odds + (label_odds - 1)).log1p()
    label_on_top = label_odds == 1
    ahead, tied = label_on_top & (best_other < 1), label_on_top & (best_other == 1)
    correct = _label_is_first_largest(logits, labels, ahead, tied)
    brier = odds.square_().sum(1) * confidence.square() + (other_odds * confidence).square()
    nll = log_total + (top - label_logit)
    if not bool(nll.isfinite().all()):  # float32 logits near ±3e38: their difference overflows
        nll = log_total.double() + (top.double() - label_logit.double())
    return confidence, correct, nll, brier


def reduce_probs(probs: Tensor, labels: Tensor) -> Values:
    """Per-example values of probabilities (N, C) that sum to 1; a label of probability 0 has an infinite NLL."""
    column = labels.unsqueeze(1)
    label_prob = probs.gather(1, column).squeeze(1).clamp(max=1)  # 1.0000001 is rounding
    others = probs.scatter(1, column, 0)
    best_other = others.amax(1)
    confidence = torch.maximum(label_prob, best_other.clamp(max=1))
    correct = _label_is_first_largest(probs, labels, label_prob > best_other, label_prob == best_other)
    return confidence, correct, -label_prob.log(), others.square_().sum(1) + (1 - label_prob).square()


def _label_is_first_largest(scores: Tensor, labels: Tensor, ahead: Tensor, tied: Tensor) -> Tensor:
    """Whether the first largest score is the label's; only tied rows, which are rare, need an argmax.

    Two vectorised maxima are several times faster than an argmax.
    """
    rows = tied.nonzero().squeeze(1)
    if len(rows):
        ahead[rows] = scores[rows].argmax(1) == labels[rows]
    return ahead
