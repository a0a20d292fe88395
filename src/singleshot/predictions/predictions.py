"""Predictions in a file: scores and labels that are checked as they are read, a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from singleshot.checks import as_tensor, check_size, finite_rows, first_true, probability_rows
from singleshot.predictions.labels import LabelReader
from singleshot.predictions.source import Kind, LabelsAre, RawBlock, Source

CHUNK_SCORES = 2**19  # scores in a chunk by default: 2 MB of float32, what a core's cache holds

FEW_CLASSES = 32


class Chunk(NamedTuple):
    """Some rows of a file."""

    scores: NDArray[Any]  # (n, C), floating point
    labels: NDArray[np.int64]  # (n,), class indices
    first: int  # the number of its first row in the file, counted from 0


@dataclass(frozen=True)
class Predictions:
    """What a classifier said about examples whose labels are known, in a file that may be larger than memory.

    `read_predictions` makes one. Nothing but the outline is read before `chunks` or `load` is called.
    """

    path: Path
    source: Source
    labels_are: LabelsAre | None = None  # what whole numbers among the labels are, where both could be

    @property
    def kind(self) -> Kind:
        """Whether the scores are "logits" or "probs"."""
        return self.source.kind

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return self.source.classes

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """Their names, where the file has them."""
        return self.source.class_names

    def chunks(self, rows: int | None = None) -> Iterator[Chunk]:
        """Every row once, so many at a time, checked: finite logits, probabilities that sum to 1, known labels."""
        rows = max(1, CHUNK_SCORES // self.classes) if rows is None else check_size("rows", rows, least=1)
        read_labels = LabelReader(self.source, self.path, self.labels_are)
        first = 0
        for block in self.source.read(rows):
            yield self._checked(block, first, read_labels)
            first += len(block.scores)
        if not first:
            raise ValueError(f"{self.path} holds no examples; predictions need at least one row")

    def batches(self, rows: int | None = None) -> Iterator[dict[str, NDArray[Any]]]:
        """The chunks as arguments for the ``update`` of a metric: logits= or probs=, and labels=."""
        for chunk in self.chunks(rows):
            # The largest of ten columns is found faster than the largest in each of many rows of ten.
            by_class = self.classes <= FEW_CLASSES
            scores = np.asfortranarray(chunk.scores) if by_class else chunk.scores
            yield {self.kind: scores, "labels": chunk.labels}

    def load(self) -> Chunk:
        """All rows in memory."""
        scores, labels, _ = zip(*self.chunks(), strict=True)
        return Chunk(np.concatenate(scores), np.concatenate(labels), 0)

    def logits(self, chunk: Chunk) -> NDArray[Any]:
        """The scores of a chunk as logits: probabilities by their logarithm, which softmax undoes.

        A probability of 0, which has none, is taken for the smallest normal float32.
        """
        if self.kind == "logits":
            return chunk.scores
        wide = chunk.scores.astype(np.float32) if chunk.scores.dtype == np.float16 else chunk.scores
        logits: NDArray[Any] = np.log(np.maximum(wide, np.finfo(np.float32).tiny))
        return logits

    def _checked(self, block: RawBlock, first: int, read_labels: LabelReader) -> Chunk:
        def where(row: int) -> str:
            return f"row {first + row} (counted from 0)" if block.lines is None else f"line {block.lines[row]}"

        scores = _native(block.scores)
        labels = read_labels(block.labels, where)
        values = as_tensor(scores, self.kind)
        if self.kind == "logits":
            good, demand = finite_rows(values), "logits must be finite"
        else:
            good, demand = probability_rows(values), "probabilities must lie in [0, 1] and sum to 1 in each row"
        if not bool(good.all()):
            row = first_true(~good)
            raise ValueError(f"{self.path}: {demand}; {where(row)} {_described(values[row].double(), self.kind)}")
        return Chunk(scores, labels, first)


def _described(row: torch.Tensor, kind: Kind) -> str:
    """What is wrong with a row."""
    if not bool(row.isfinite().all()):
        place = first_true(~row.isfinite())
        return f"has {float(row[place])} for class {place}"
    hint = "; if these are logits, say so with --kind logits" if kind == "probs" else ""
    return f"has values from {float(row.amin()):g} to {float(row.amax()):g} and sum {float(row.sum()):.6g}{hint}"


def _native(scores: NDArray[Any]) -> NDArray[Any]:
    """In a form that torch takes: this machine's byte order, and at most double precision."""
    if scores.dtype.itemsize > 8:
        return scores.astype(np.float64)
    return scores.astype(scores.dtype.newbyteorder("="), copy=False)
