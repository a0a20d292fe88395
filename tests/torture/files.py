"""Damaged files of predictions: refused with their name, or read without an error of another kind."""

from __future__ import annotations

import numpy as np

from predictions.files import WRITERS, predictions
from singleshot.predictions import read_predictions
from torture.mutation import flip_bit, mutated
from torture.tally import Tally, refused_with

CASES = 40
LOGITS, LABELS = predictions(30, 4, "logits")
WITH_CHECKSUMS = ("npz", "npz deflated", "npz by columns", "csv.gz")


def damaged_predictions(tally: Tally) -> None:
    """Mutate files of every format."""
    for number in range(CASES):
        name = tally.random.choice(list(WRITERS))
        folder = tally.folder / str(number)
        folder.mkdir()
        path, options = WRITERS[name](folder, LOGITS, LABELS, "logits")
        change, content = mutated(path.read_bytes(), tally.random)
        path.write_bytes(content)
        with tally.case(f"{name}: {change}: {path}"):
            try:
                for chunk in read_predictions(path, **options).chunks(7):
                    assert np.isfinite(chunk.scores).all()
            except Exception as error:
                refused_with(error, path.name)


def flipped_bits(tally: Tally) -> None:
    """Flip one bit in formats with checksums: no number may change."""
    for number in range(CASES):
        name = tally.random.choice(WITH_CHECKSUMS)
        folder = tally.folder / str(number)
        folder.mkdir()
        path, options = WRITERS[name](folder, LOGITS, LABELS, "logits")
        path.write_bytes(flip_bit(path.read_bytes(), tally.random))
        with tally.case(f"{name}: {path}"):
            try:
                found = read_predictions(path, **options).load()
            except Exception as error:
                refused_with(error, path.name)
            else:
                assert np.array_equal(found.scores.astype(np.float32), LOGITS), "other scores"
                assert np.array_equal(found.labels, LABELS), "other labels"
