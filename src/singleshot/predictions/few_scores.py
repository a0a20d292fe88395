"""Files with one score per example: the confidence of the predicted class, or the probability of the positive class.

Their labels are read once when the file is opened, to find the classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from singleshot.common.text import listed
from singleshot.predictions.file import MAX_CLASSES, Block, BlockReader, Predictions, damage_reported, row_location
from singleshot.predictions.validation import label_texts, native, parse_integer

ROWS = 2**16  # read at a time
OUTCOMES = ("wrong", "right")
TRUTHS = {"0": 0, "1": 1, "false": 0, "true": 1, "no": 0, "yes": 1, "wrong": 0, "right": 1}
PLAIN_POSITIVES = ("1", "pos", "positive", "true", "yes")
AMBIGUOUS = (
    "could be the probability of the predicted class or of the positive class: set --kind confidence or --kind probs "
    "(kind= in Python)"
)


def open_single_score(predictions: Predictions, positive: str | None = None) -> Predictions:
    """Turn predictions whose blocks have one score per example into those of their classes."""
    if predictions.normalize and predictions.kind != "logits":
        percent = predictions.read_blocks
        _check_percent(predictions.path, percent)
        predictions = replace(predictions, normalize=False, read_blocks=lambda rows: map(_from_percent, percent(rows)))
    path, read, names = predictions.path, predictions.read_blocks, predictions.class_names
    if predictions.stored_passes is not None:
        raise ValueError(f"{path} has one score per example, but stochastic passes, which need a score for each class")
    if predictions.kind != "confidence":
        return _binary(predictions, positive)
    with damage_reported(path):
        first = next(read(1), None)
    if first is not None and first.predicted is None:
        of_outcomes = _with_outcomes(path, read)
        return replace(predictions, classes=2, class_names=OUTCOMES, has_classes=False, read_blocks=of_outcomes)
    if names is not None:  # stored in the file
        return replace(predictions, classes=len(names))
    names = _distinct(path, read)
    if predictions.is_unclear and len(names) <= 2 and _has_low_scores(path, read):
        raise ValueError(f"{path}: the score {AMBIGUOUS}")
    return replace(predictions, classes=len(names), class_names=names, labels_are="names")


def _check_percent(path: Path, read_blocks: BlockReader) -> None:
    with damage_reported(path):
        if all(bool((block.scores <= 1).all()) for block in read_blocks(ROWS)):
            raise ValueError(f"{path}: no score is above 1: these are not percentages; leave out --normalize")


def _from_percent(block: Block) -> Block:
    return block._replace(scores=native(block.scores).astype(np.float64) / 100)


def _distinct(path: Path, read_blocks: BlockReader) -> tuple[str, ...]:
    """Return the distinct labels and predicted classes, sorted by number if all are numbers."""
    found: set[str] = set()
    first = 0
    with damage_reported(path):
        for block in read_blocks(ROWS):
            for what, labels in (("label", block.labels), ("predicted class", block.predicted)):
                texts = [] if labels is None else label_texts(labels)
                if "" in texts:
                    raise ValueError(f"{path}: the {what} in {row_location(block, first)(texts.index(''))} is empty")
                found.update(texts)
            first += len(block.labels)
            if len(found) > MAX_CLASSES:
                raise ValueError(f"{path} has more than {MAX_CLASSES:,} distinct labels")
    if not found:
        raise ValueError(f"{path} contains no examples")
    return tuple(sorted(found, key=lambda text: ((number := parse_integer(text)) is None, number or 0, text)))


def _has_low_scores(path: Path, read_blocks: BlockReader) -> bool:
    with damage_reported(path):
        return any(bool((block.scores < 0.5).any()) for block in read_blocks(ROWS))


def _with_outcomes(path: Path, read_blocks: BlockReader) -> BlockReader:
    """Read labels that state whether the prediction is right as the classes wrong and right."""

    def read(rows: int) -> Iterator[Block]:
        for block in read_blocks(rows):
            texts = label_texts(block.labels)
            unknown = [text for text in dict.fromkeys(texts) if text.lower() not in TRUTHS]
            if unknown:
                raise ValueError(f"{path}: correctness must be 0 or 1, or true or false; found {listed(unknown, 5)}")
            labels = np.array([TRUTHS[text.lower()] for text in texts], dtype=np.int64)
            yield block._replace(labels=labels, predicted=np.ones_like(labels))

    return read


def _binary(predictions: Predictions, positive: str | None) -> Predictions:
    """Add the probability, or the logit 0, of the negative class."""
    path, read_blocks, names = predictions.path, predictions.read_blocks, predictions.class_names
    labels = _distinct(path, read_blocks)
    if names is not None and len(names) == 2:  # stored in the file
        index = {"0": 0, "1": 1, "False": 0, "True": 1, **{name: place for place, name in enumerate(names)}}
        labels, (negative, positive) = tuple(sorted(set(labels) - set(index))), names
        if labels:
            unknown = f"unknown label{'s' if len(labels) > 1 else ''} {listed(labels, 5)}"
            raise ValueError(f"{path}: {unknown}; the classes are {listed(names)}")
    else:
        negative, positive, index = _two_classes(path, labels, positive or (names[0] if names else None))

    def read(rows: int) -> Iterator[Block]:
        for block in read_blocks(rows):
            scores = native(block.scores).astype(np.float64)
            other = 1 - scores if predictions.kind == "probs" else np.zeros_like(scores)
            found = np.array([index[text] for text in label_texts(block.labels)], dtype=np.int64)
            yield Block(np.concatenate([other, scores], axis=1), found, block.lines)

    pair = (negative, positive)
    return replace(predictions, classes=2, class_names=pair, read_blocks=read, positive=positive, labels_are="indices")


def _two_classes(path: Path, labels: tuple[str, ...], positive: str | None) -> tuple[str, str, dict[str, int]]:
    """Return the names of the negative and the positive class, and the index of each label."""
    if len(labels) > 2:
        raise ValueError(
            f"{path} has one score per example, which is for two classes, but its labels are {listed(labels, 5)}; more "
            "classes need a score for each class. If the score is the confidence of the predicted class, set --kind "
            "confidence --predicted NAME"
        )
    if positive is not None and positive in labels:
        negative = next((label for label in labels if label != positive), f"not {positive}")
        return negative, positive, {negative: 0, positive: 1}
    lower = {label.lower(): label for label in labels}
    for pair in (("0", "1"), ("false", "true")):
        if set(lower) <= set(pair):
            texts = tuple(lower.get(one, one) for one in pair)
            name = positive if positive and positive.lower() not in PLAIN_POSITIVES else texts[1]
            other = texts[0] if name == texts[1] else f"not {name}"
            return other, name, {texts[0]: 0, texts[1]: 1}
    if positive is not None and positive.lower() not in PLAIN_POSITIVES:
        raise ValueError(
            f"{path}: the positive class {positive!r} is not among the labels {listed(labels)}; set --positive LABEL "
            "(positive= in Python)"
        )
    if len(labels) == 1:
        raise ValueError(f"{path}: every label is {labels[0]!r}; set --positive LABEL (positive= in Python)")
    return labels[0], labels[1], {labels[0]: 0, labels[1]: 1}
