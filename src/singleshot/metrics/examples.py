"""What is kept of each example, for everything that needs more than bins."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from singleshot.metrics.rows import ScoredBatch

FIELDS = ("confidence", "correct", "nll", "brier")


@dataclass(frozen=True, eq=False)
class Examples:
    """Four numbers per example, 13 bytes of them from float32 scores: what intervals, tests and thresholds are made of.

    >>> examples = Examples.of(probs=torch.tensor([[0.9, 0.1], [0.3, 0.7]]), labels=torch.tensor([0, 0]))
    >>> len(examples), examples.confidence, examples.correct
    (2, tensor([0.9000, 0.7000]), tensor([ True, False]))
    """

    confidence: Tensor  # (N,) probability of the predicted class; keeps the dtype of probabilities, for exact bin edges
    correct: Tensor  # (N,) whether the predicted class is the label
    nll: Tensor  # (N,) −log p(y)
    brier: Tensor  # (N,) Σ_c (p(c) − [c = y])²
    labels_digest: str = ""  # of the labels in their order, to know examples of the same data; empty: not known

    def __post_init__(self) -> None:
        shapes = {name: tuple(getattr(self, name).shape) for name in FIELDS}
        if len(set(shapes.values())) != 1 or len(self.confidence.shape) != 1 or not len(self.confidence):
            raise ValueError(f"Examples need fields of one shape (N,) with at least one example, got {shapes}")

    def __len__(self) -> int:
        return len(self.confidence)

    @classmethod
    def of(
        cls,
        *,
        logits: Any = None,
        probs: Any = None,
        labels: Any,
    ) -> Examples:
        """The examples of scores (N, C), given as logits or as probabilities, and labels (N,)."""
        gathering = ExampleGathering()
        gathering.update(logits=logits, probs=probs, labels=labels)
        return gathering.finish()

    @classmethod
    def gather(cls, batches: Iterable[dict[str, Any]]) -> Examples:
        """The examples of many batches, each the arguments of `of`, such as ``{"logits": ..., "labels": ...}``."""
        gathering = ExampleGathering()
        for batch in batches:
            gathering.update(**batch)
        return gathering.finish()


class ExampleGathering:
    """Collects examples batch by batch, as a `Calibration` is updated, and never holds the scores of more than one.

    >>> gathering = ExampleGathering()
    >>> gathering.update(logits=torch.tensor([[2.0, 0.0]]), labels=torch.tensor([0]))
    >>> gathering.update(logits=torch.tensor([[0.0, 1.0]]), labels=torch.tensor([0]))
    >>> gathering.finish().correct
    tensor([ True, False])
    """

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._parts: dict[str, list[Tensor]] = {name: [] for name in FIELDS}
        self._digest = hashlib.blake2b(digest_size=16)

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
        for name, parts in self._parts.items():
            parts.append(getattr(batch, name))
        self._digest.update(batch.labels.numpy().tobytes())

    def finish(self) -> Examples:
        """All examples so far, in the order they came; the gathering is empty afterwards."""
        if not self._parts["confidence"]:
            raise ValueError("there are no examples yet: update the ExampleGathering with at least one batch")
        # one field at a time, its parts let go at once: the peak is the result and one field, not twice the result
        joined = {name: torch.cat(self._parts.pop(name)) for name in FIELDS}
        digest = self._digest.hexdigest()
        self._start()
        return Examples(**joined, labels_digest=digest)
