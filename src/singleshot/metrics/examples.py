"""Per-example values that the metrics are computed from: confidence, correctness, NLL and Brier score."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from singleshot.common.checks import (
    LOGITS,
    PROBABILITIES,
    as_tensor,
    check_labels,
    check_rows,
    check_scores,
    logit_rows,
    probability_rows,
)
from singleshot.common.layout import counted_examples
from singleshot.common.text import listed
from singleshot.metrics.reduction import float_copy, reduce_logits, reduce_probs
from singleshot.uncertainty import at_least_float32

Kind = Literal["logits", "probs"]
CHUNK_ELEMENTS = 2**19
"""Scores processed at a time: 4 MB of float64 stay in the cache, and temporaries do not grow with the data."""


@dataclass(frozen=True, eq=False)
class ScoredBatch:
    """A validated batch of scores and labels, reduced to the per-example values that every metric needs.

    Build it once per batch with `of` and pass it to the ``add`` method of `Calibration`, `ExampleGathering` and
    `ClasswiseGroups`. The per-example values are on the CPU, where sums are reproducible and float64 is available.

    >>> batch = ScoredBatch.of(probs=torch.tensor([[0.9, 0.1], [0.3, 0.7]]), labels=torch.tensor([0, 0]))
    >>> batch.confidence, batch.correct, batch.predicted()
    (tensor([0.9000, 0.7000]), tensor([ True, False]), tensor([0, 1]))
    """

    kind: Literal[Kind, "confidence"]  # what the scores are
    scores: Tensor  # (N, C) as given, on any device; the confidences (N, 1) if only these are known
    labels: Tensor  # (N,) int64, on the CPU
    confidence: Tensor  # (N,) probability of the predicted class; float64, or in the dtype of probs for exact bin edges
    correct: Tensor  # (N,) whether the predicted class, the first of the largest, is the label
    nll: Tensor  # (N,) −log p(y); NaN if only the confidence is known
    brier: Tensor  # (N,) Σ_c (p(c) − [c = y])²; NaN if only the confidence is known
    doubt: Tensor | None = None  # (N,) 1 − confidence to full relative precision, for logits
    top_class: Tensor | None = None  # (N,) the predicted class, if only its confidence is known

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

        Tensors, numpy arrays, pandas objects and nested lists are accepted; labels can be the names of the columns of a
        DataFrame of scores. Other layouts of scores and labels, and their options ``ignore_index`` and ``classes``, are
        those of `Calibration.update`. Set ``checked`` for scores that are known to be logits or probabilities.
        """
        kind, scores, labels = _given(logits, probs, labels, **layout)
        parts = list(cls._reduced(kind, scores, labels, checked))
        fields = ("labels", "confidence", "correct", "nll", "brier", *(["doubt"] if kind == "logits" else []))
        joined = {name: torch.cat([getattr(part, name) for part in parts]) for name in fields}
        return cls(kind, scores, **joined)

    @classmethod
    def stream(
        cls, *, logits: Any = None, probs: Any = None, labels: Any, **layout: Any
    ) -> tuple[int, Iterator[ScoredBatch]]:
        """Like `of`, but return the number of classes and an iterator over pieces that fit into the cache."""
        kind, scores, labels = _given(logits, probs, labels, **layout)
        return scores.shape[1], cls._reduced(kind, scores, labels, checked=False)

    @classmethod
    def _reduced(cls, kind: Kind, scores: Tensor, labels: Tensor, checked: bool) -> Iterator[ScoredBatch]:
        valid_rows, requirement = (logit_rows, LOGITS) if kind == "logits" else (probability_rows, PROBABILITIES)
        for rows in _chunks(scores):
            if not checked:
                check_rows(scores[rows], valid_rows, requirement, whole=scores)
            some = scores[rows].cpu() if scores.device.type == "mps" else scores[rows]  # which has no float64
            on_device = labels[rows].to(some.device)
            reduced = (
                reduce_logits(some, on_device)
                if kind == "logits"
                else reduce_probs(float_copy(some, torch.promote_types(some.dtype, torch.float32)), on_device)
            )
            first, correct, nll, brier = (values.cpu() for values in reduced)
            here = scores[rows], labels[rows].cpu()
            if kind == "probs":
                yield cls(kind, *here, first.to(scores.dtype), correct, nll, brier)
            else:
                yield cls(kind, *here, 1 - first, correct, nll, brier, doubt=first)

    @classmethod
    def of_top_class(cls, *, confidence: Any, predicted: Any, labels: Any) -> ScoredBatch:
        """Validate and reduce predictions (N,) of which only the confidence (N,) is known, and labels (N,).

        Their NLL and Brier score are NaN: they need the probability of every class.

        >>> batch = ScoredBatch.of_top_class(confidence=[0.9, 0.7], predicted=[0, 1], labels=[0, 0])
        >>> batch.confidence, batch.correct, batch.nll
        (tensor([0.9000, 0.7000]), tensor([ True, False]), tensor([nan, nan]))
        """
        scores = as_tensor(confidence, "confidence").cpu()
        check_scores(scores, ("(N)",), name="confidence")
        scores = scores.unsqueeze(1)
        predicted, labels = (as_tensor(values, "labels").cpu() for values in (predicted, labels))
        predicted, labels = (check_labels(values, len(scores), 2**62) for values in (predicted, labels))
        check_rows(scores, lambda rows: ((rows >= 0) & (rows <= 1)).all(1), "confidence must lie in [0, 1]")
        unknown = torch.full_like(scores[:, 0], torch.nan)
        correct = predicted == labels
        return cls("confidence", scores, labels, scores[:, 0], correct, unknown, unknown, top_class=predicted)

    def __len__(self) -> int:
        return len(self.labels)

    def chunks(self) -> Iterator[ScoredBatch]:
        """Split the batch into pieces whose scores fit into the cache."""
        for rows in _chunks(self.scores):
            parts: dict[str, Any] = {name: one[rows] for name, one in vars(self).items() if isinstance(one, Tensor)}
            yield replace(self, **parts)

    def probs(self) -> Tensor:
        """Return the probability of every class (N, C), on the CPU."""
        if self.kind == "confidence":
            raise ValueError("only the confidence of the predicted class is known, not the probability of every class")
        return (at_least_float32(self.scores).softmax(1) if self.kind == "logits" else self.scores).cpu()

    def of_class(self, index: int) -> ScoredBatch:
        """Return a batch whose confidence is the probability of one class, and that is correct if this is the label.

        Its calibration is that of the probability of the class.
        """
        probability = self.scores.double().softmax(1)[:, index] if self.kind == "logits" else self.scores[:, index]
        is_class = self.labels == index
        brier = (probability.cpu() - is_class.double()).square()
        return replace(self, confidence=probability.cpu(), correct=is_class, brier=brier, doubt=None)

    def predicted(self, rows: Tensor | slice = slice(None)) -> Tensor:
        """Return the predicted class of each example (N,), or of some rows, on the CPU."""
        if self.top_class is not None:
            return self.top_class[rows]
        return self.scores[rows if isinstance(rows, slice) else rows.to(self.scores.device)].argmax(1).cpu()


def _given(logits: Any, probs: Any, labels: Any, **layout: Any) -> tuple[Kind, Tensor, Tensor]:
    if (logits is None) == (probs is None):
        raise ValueError("pass either logits= or probs=, together with labels=")
    kind: Kind = "logits" if probs is None else "probs"
    return (kind, *scores_and_labels(logits if probs is None else probs, labels, kind, **layout))


def scores_and_labels(scores: Any, labels: Any, kind: str, **layout: Any) -> tuple[Tensor, Tensor]:
    """Return scores (N, C) and labels (N,) of everything that `ScoredBatch.of` accepts."""
    if layout.get("classes") is None:
        labels = _named_columns(scores, labels)
    return counted_examples(scores, labels, name=kind, **layout)


def _named_columns(scores: Any, labels: Any) -> Any:
    """Return labels that are names of the columns of a DataFrame as the indices of these columns."""
    if not hasattr(scores, "columns"):
        return labels
    names = list(scores.columns)
    values = np.asarray(labels).ravel()
    if values.dtype.kind in "iu":
        if all(isinstance(name, Integral) for name in names) and names != list(range(len(names))):
            raise ValueError(
                f"labels are ambiguous: the columns are the classes {listed([str(name) for name in names])}, which are "
                "not their indices; pass scores.to_numpy() with indices, or name the columns and labels by text"
            )
        return labels
    index = {str(name): place for place, name in enumerate(names)}
    unknown = [label for label in dict.fromkeys(map(str, values.tolist())) if label not in index]
    if unknown:
        raise ValueError(f"unknown labels {listed(unknown, 5)}; the columns are {listed(list(index))}")
    return np.array([index[str(label)] for label in values.tolist()], dtype=np.int64)


def _chunks(scores: Tensor) -> Iterator[slice]:
    size = max(1, CHUNK_ELEMENTS // scores.shape[1])
    return (slice(first, first + size) for first in range(0, max(len(scores), 1), size))


FIELDS = ("confidence", "correct", "nll", "brier", "doubt")


@dataclass(frozen=True, eq=False)
class Examples:
    """Four values per example (25 bytes from float32 logits), enough for intervals, tests and thresholds.

    >>> examples = Examples.of(probs=torch.tensor([[0.9, 0.1], [0.3, 0.7]]), labels=torch.tensor([0, 0]))
    >>> len(examples), examples.confidence, examples.correct
    (2, tensor([0.9000, 0.7000]), tensor([ True, False]))
    """

    confidence: Tensor  # (N,) as in `ScoredBatch`, and so are the next three
    correct: Tensor
    nll: Tensor
    brier: Tensor
    labels_digest: str = ""  # of the labels in order, to recognise the same data; empty if unknown
    doubt: Tensor | None = None  # as in `ScoredBatch`

    def __post_init__(self) -> None:
        shapes = {name: tuple(getattr(self, name).shape) for name in FIELDS if getattr(self, name) is not None}
        if len(set(shapes.values())) != 1 or len(self.confidence.shape) != 1 or not len(self.confidence):
            raise ValueError(f"Examples need fields of one shape (N,) with at least one example, got {shapes}")

    def descending(self) -> NDArray[np.float64]:
        """Return a float64 key (N,) that increases as the confidence decreases, to rank examples by.

        A confidence within 1e-16 of 1 is 1 in float64, so 1 − confidence is the key if it is known. It is rounded to 44
        bits, about 13 digits, so that rounding errors do not break ties.
        """
        if self.doubt is None:
            return np.asarray(-self.confidence.double().numpy())
        bits = self.doubt.numpy().view(np.int64)
        return np.asarray(((bits + 2**7) & -(2**8)).view(np.float64))

    def __len__(self) -> int:
        return len(self.confidence)

    def has_labels_of(self, other: Examples) -> bool:
        """Return whether both are predictions of the same examples in the same order, as far as the labels tell."""
        is_unknown = not (self.labels_digest and other.labels_digest)
        return len(self) == len(other) and (is_unknown or self.labels_digest == other.labels_digest)

    def merge(self, other: Examples) -> Examples:
        """Return these examples followed by others. The digest of the labels is then unknown."""
        return Examples(**{name: _joined([getattr(self, name), getattr(other, name)]) for name in FIELDS})

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
        self._parts: dict[str, list[Tensor | None]] = {name: [] for name in FIELDS}
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
        joined: dict[str, Any] = {name: _joined(self._parts.pop(name)) for name in FIELDS}
        return Examples(**joined, labels_digest=self._digest.hexdigest())


def _joined(parts: list[Tensor | None]) -> Any:
    """Concatenate a field of several batches; None if a batch does not have it."""
    known = [part for part in parts if part is not None]
    return torch.cat(known) if len(known) == len(parts) else None
