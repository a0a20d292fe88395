"""Predictions in a file: scores and labels that are checked as they are read, a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from singleshot.common.checks import check_size
from singleshot.predictions.labels import LabelReader, Where
from singleshot.predictions.source import Kind, LabelsAre, RawBlock, Source
from singleshot.predictions.values import as_logits, checked_passes, first_mistake, native, summing_to_one

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

    @property
    def passes(self) -> int:
        """How many stochastic passes the file holds beside the scores; 0 where it has none."""
        return 0 if self.source.passes is None else self.source.passes.count

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

    def pass_batches(self, rows: int | None = None) -> Iterator[dict[str, NDArray[Any]]]:
        """The stochastic passes as arguments for `VarianceHistogram.update`: logits= (T, n, C) and labels= (n,).

        They are checked as the scores are; probabilities come as their logarithms.
        """
        passes = self.source.passes
        if passes is None:
            raise ValueError(f"{self.path} holds no stochastic passes; they go into an array pass_logits (T, N, C)")
        scores = passes.count * self.classes
        rows = max(1, CHUNK_SCORES // scores) if rows is None else check_size("rows", rows, least=1)
        read_labels = LabelReader(self.source, self.path, self.labels_are)
        first = 0
        for block in passes.read(rows):
            labels = read_labels(block.labels, _places(block, first))
            yield {"logits": checked_passes(passes, block, first), "labels": labels}
            first += len(labels)

    def load(self) -> Chunk:
        """All rows in memory."""
        scores, labels, _ = zip(*self.chunks(), strict=True)
        return Chunk(np.concatenate(scores), np.concatenate(labels), 0)

    def logits(self, chunk: Chunk) -> NDArray[Any]:
        """The scores of a chunk as logits: probabilities by their logarithm, which softmax undoes.

        A probability of 0, which has none, is taken for the smallest normal float32.
        """
        return as_logits(chunk.scores, self.kind)

    def _checked(self, block: RawBlock, first: int, read_labels: LabelReader) -> Chunk:
        where = _places(block, first)
        scores = native(block.scores)
        labels = read_labels(block.labels, where)
        mistake = first_mistake(
            scores, self.kind, if_logits="say so with --kind logits", were_bfloat16=block.were_bfloat16
        )
        if mistake is not None:
            raise ValueError(f"{self.path}: {mistake.demand}; {where(mistake.row)} {mistake.found}")
        if block.were_bfloat16 and self.kind == "probs":
            scores = summing_to_one(scores)  # they are float32 now, and the metrics ask for sums of that precision
        return Chunk(scores, labels, first)


def _places(block: RawBlock, first: int) -> Where:
    """Names the rows of a block that begins at the row ``first`` of the file."""

    def where(row: int) -> str:
        return f"row {first + row} (counted from 0)" if block.lines is None else f"line {block.lines[row]}"

    return where
