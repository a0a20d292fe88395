"""A file of predictions: scores and labels that are read and checked in chunks."""

from __future__ import annotations

import csv
import errno
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from singleshot.common.checks import check_size
from singleshot.common.text import listed, printable
from singleshot.predictions.names import Kind
from singleshot.predictions.selection import check_unique
from singleshot.predictions.validation import (
    LabelReader,
    LabelsAre,
    Location,
    ScoreFaults,
    as_logits,
    check_values,
    fitted_logits,
    label_texts,
    native,
    parse_integer,
    score_tensor,
)

CHUNK_SCORES = 2**19  # scores in a chunk by default: 2 MB of float32 fit into a core's cache
MAX_CLASSES = 2**22  # a row must fit in memory
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, csv.Error, UnicodeDecodeError, SafetensorError)


class Block(NamedTuple):
    """Rows as stored in the file, not yet checked."""

    scores: NDArray[Any]  # (n, C), or (T, n, C) for stochastic passes
    labels: NDArray[Any]  # (n,), integers or text
    lines: Sequence[int] | None = None  # line numbers in a text file
    bfloat16: bool = False  # whether the scores were stored as bfloat16, which numpy lacks
    predicted: NDArray[Any] | None = None  # (n,), integers or text, if the scores are only their confidences (n, 1)


BlockReader = Callable[[int], Iterator[Block]]
"""Reads a file from the start, in blocks of at most the given number of rows."""


class Chunk(NamedTuple):
    """Checked rows of a file."""

    scores: NDArray[Any]  # (n, C), floating point; (n, 1) if only the confidence is known
    labels: NDArray[np.int64]  # (n,), class indices
    predicted: NDArray[np.int64] | None = None  # (n,), class indices, if only their confidence is known


@dataclass(frozen=True)
class StoredPasses:
    """T stochastic passes over the examples of a file."""

    name: str  # for messages
    kind: Kind
    count: int
    read_blocks: BlockReader


@dataclass(frozen=True)
class Predictions:
    """Scores and labels in a file that may be larger than memory.

    Use `read_predictions` to open one. Only the file's header is read before `chunks` or `load` is called.
    """

    path: Path
    kind: Kind
    classes: int
    count: int | None  # examples; unknown for a text file
    class_names: tuple[str, ...] | None
    read_blocks: BlockReader
    stored_passes: StoredPasses | None = None
    labels_are: LabelsAre | None = None  # meaning of integer labels, if it would be ambiguous
    positive: str | None = None  # name of the positive class, if the file has only its scores
    normalize: bool = False  # whether each row of probabilities is divided by its sum
    is_unclear: bool = False  # whether the confidence could be the probability of the positive class
    are_assumed: bool = False  # whether the classes are all columns but the label, which may include others
    has_classes: bool = True  # False if it is only known whether each prediction is right: class 1 of 0 and 1

    def __post_init__(self) -> None:
        if self.count == 0:
            raise ValueError(f"{self.path} contains no examples")
        if not 1 <= self.classes <= MAX_CLASSES:
            raise ValueError(f"{self.path} has {self.classes:,} classes; 1 to {MAX_CLASSES:,} are supported")
        if self.class_names is not None and not self.has_single_score:
            if len(self.class_names) != self.classes:
                raise ValueError(f"{self.path} has {len(self.class_names)} class names for {self.classes} classes")
            check_unique(self.path, self.class_names, "class")

    @property
    def has_single_score(self) -> bool:
        """Whether the blocks have one score per example: a confidence, or the score of the positive class."""
        return self.kind == "confidence" or self.classes == 1

    @property
    def known_classes(self) -> int:
        """Number of classes; 0 if it is only known whether each prediction is right."""
        return self.classes if self.has_classes else 0

    @property
    def passes(self) -> int:
        """Number of stochastic passes in the file, 0 if there are none."""
        return 0 if self.stored_passes is None else self.stored_passes.count

    def chunks(self, rows: int | None = None) -> Iterator[Chunk]:
        """Yield all rows in chunks, checked: logits or probabilities that sum to 1, and known labels.

        An error describes everything that is wrong with the file.
        """
        if self.normalize and self.kind != "probs":
            raise ValueError(f"{self.path} has {self.kind}; only probabilities can be normalized")
        is_empty = True
        used: set[int] = set()
        try:
            for block, labels, predicted, first in self._labelled_blocks(self.read_blocks, self.classes, rows):
                is_empty = False
                scores, location = self._scores(block), row_location(block, first)
                check_values(scores, self.kind, str(self.path), location, bfloat16=block.bfloat16)
                if block.bfloat16 and self.kind == "probs":
                    # They are float32 now, and the metrics check sums to that precision.
                    scores = scores / scores.sum(-1, keepdims=True)
                if self.are_assumed:
                    used.update(np.unique(labels).tolist())
                yield Chunk(scores, labels, predicted)
        except ValueError as error:
            raise ValueError(self._faults(str(error))) from None
        if is_empty:
            raise ValueError(f"{self.path} contains no examples")
        self._check_assumed(used)

    def _check_assumed(self, used: set[int]) -> None:
        """Refuse a column that no label uses, such as an age, among assumed classes. The sum of probabilities tells."""
        is_certain = not self.are_assumed or (self.kind == "probs" and not self.normalize) or self.positive is not None
        unused = [] if is_certain else [name for i, name in enumerate(self.class_names or ()) if i not in used]
        if unused:
            others = [name for i, name in enumerate(self.class_names or ()) if i in used]
            raise ValueError(
                f"{self.path}: no label is {listed(unused, 5)}, so it is unclear whether "
                f"{'this column is a class' if len(unused) == 1 else 'these columns are classes'}; list the columns of "
                f"all classes: --scores {','.join(others[:10])}{',…' if len(others) > 10 else ''} (scores= in Python)"
            )

    def _scores(self, block: Block) -> NDArray[Any]:
        scores = native(block.scores)
        if not self.normalize:
            return scores
        wide = scores.astype(np.float64)
        total = wide.sum(-1, keepdims=True)
        return np.asarray(np.divide(wide, total, out=np.full_like(wide, np.nan), where=(total > 0) & (wide >= 0)))

    def _faults(self, found: str) -> str:
        """Read the file again, and describe the faults of all labels and all scores."""
        labels_fault = ""
        is_single = self.kind == "confidence" or self.positive is not None
        scores = ScoreFaults(str(self.path), "confidence" if is_single and self.kind == "probs" else self.kind)
        try:
            read_labels = self._label_reader()
            first = 0
            for block in self.read_blocks(max(1, CHUNK_SCORES // self.classes)):
                location = row_location(block, first)
                if not labels_fault:
                    try:
                        read_labels(block.labels, location)
                    except ValueError as error:
                        labels_fault = str(error)
                values = score_tensor(self._scores(block), self.kind, bfloat16=block.bfloat16)
                scores.add(values[:, -1:] if scores.kind == "confidence" else values, location)
                first += len(block.labels)
        except (*DAMAGE, OSError, ValueError):
            pass  # the rest of the file cannot be read, as the error that was found may say already
        faults = [fault for fault in (labels_fault, scores.message()) if fault]
        return ". Also: ".join(faults) if found in faults or len(faults) == 2 or scores.invalid else found

    def batches(self, rows: int | None = None) -> Iterator[dict[str, NDArray[Any]]]:
        """Yield the chunks as arguments of `ScoredBatch.of`: logits= or probs=, and labels=.

        If only the confidence is known, as arguments of `ScoredBatch.of_top_class`.
        """
        return map(self.batch, self.chunks(rows))

    def batch(self, chunk: Chunk) -> dict[str, NDArray[Any]]:
        """Return a chunk as `batches` yields it."""
        if chunk.predicted is None:
            return {self.kind: chunk.scores, "labels": chunk.labels}
        return {"confidence": chunk.scores[:, 0], "predicted": chunk.predicted, "labels": chunk.labels}

    def label_names(self) -> tuple[str, ...] | None:
        """Return the class names if the labels in the file are names; None if they are numbers."""
        is_number = parse_integer(label_texts(next(self.read_blocks(1)).labels)[0]) is not None
        return None if is_number else self.class_names

    def pass_batches(self, rows: int | None = None) -> Iterator[dict[str, NDArray[Any]]]:
        """Yield the stochastic passes as arguments of `VarianceHistogram.update`: logits= (T, n, C) and labels= (n,).

        They are checked like the scores. Probabilities are converted to their logarithms.
        """
        passes = self.stored_passes
        if passes is None:
            raise ValueError(f"{self.path} has no stochastic passes; store them in an array pass_logits (T, N, C)")
        for block, labels, _, first in self._labelled_blocks(passes.read_blocks, passes.count * self.classes, rows):
            scores, location = native(block.scores), _pass_location(len(labels), first)
            flat = scores.reshape(-1, self.classes)
            check_values(flat, passes.kind, passes.name, location, bfloat16=block.bfloat16)
            yield {"logits": as_logits(scores, passes.kind), "labels": labels}

    def load(self) -> Chunk:
        """Read all rows into memory."""
        scores, labels, predicted = zip(*self.chunks(), strict=True)
        found = None if predicted[0] is None else np.concatenate(predicted)
        return Chunk(np.concatenate(scores), np.concatenate(labels), found)

    def logits(self, chunk: Chunk) -> NDArray[Any]:
        """Return the scores of a chunk as logits for a calibration, see `fitted_logits`."""
        return fitted_logits(chunk.scores, self.kind)

    def _labelled_blocks(
        self, read_blocks: BlockReader, row_scores: int, rows: int | None
    ) -> Iterator[tuple[Block, NDArray[np.int64], NDArray[np.int64] | None, int]]:
        """Yield blocks with their labels and predicted classes as indices, and the index of their first row."""
        rows = max(1, CHUNK_SCORES // row_scores) if rows is None else check_size("rows", rows, least=1)
        read_labels = self._label_reader()
        first = 0
        with damage_reported(self.path):
            for block in read_blocks(rows):
                location = row_location(block, first)
                predicted = None if block.predicted is None else read_labels(block.predicted, location)
                yield block, read_labels(block.labels, location), predicted, first
                first += len(block.labels)

    def _label_reader(self) -> LabelReader:
        return LabelReader(self.path, self.classes, self.class_names, self.labels_are)


def row_location(block: Block, first: int) -> Location:
    """Return a function that describes where a row of a block is, whose first row has this index in the file."""
    lines = block.lines
    return lambda row: f"row {first + row} (counted from 0)" if lines is None else f"line {lines[row]}"


def _pass_location(rows: int, first: int) -> Location:
    return lambda row: f"pass {row // rows}, row {first + row % rows} (counted from 0)"


@contextmanager
def damage_reported(path: Path) -> Iterator[None]:
    """Raise a ValueError with the path for errors that a damaged or encrypted file causes, but not for disk errors."""
    try:
        yield
    except (*DAMAGE, OSError) as error:
        # A damaged archive makes zipfile seek to a negative offset, which is invalid. Errors of gzip and
        # zstd have no number.
        if isinstance(error, OSError) and error.errno not in {None, errno.EINVAL}:
            raise
        reason = f"damaged, incomplete or encrypted, or its ending is wrong: {printable(str(error))}"
        raise ValueError(f"{path} is {reason}") from None
