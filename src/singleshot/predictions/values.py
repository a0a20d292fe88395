"""What scores must be to be logits or probabilities, and the first row of a block that is not."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from singleshot.common.checks import as_tensor, finite_rows, first_true, probability_rows
from singleshot.predictions.source import Kind, PassesSource, RawBlock


class Mistake(NamedTuple):
    """A row that is not what its kind asks for."""

    row: int
    demand: str
    found: str


def first_mistake(scores: NDArray[Any], kind: Kind, *, if_logits: str, were_bfloat16: bool = False) -> Mistake | None:
    """The first bad row of scores (n, C); ``if_logits`` says what to do where probabilities are none."""
    values = as_tensor(scores, kind)
    if were_bfloat16:
        values = values.bfloat16()  # nothing is lost, and their sums are held to no more than its precision
    if kind == "logits":
        good, demand = finite_rows(values), "logits must be finite"
    else:
        good, demand = probability_rows(values), "probabilities must lie in [0, 1] and sum to 1 in each row"
    if bool(good.all()):
        return None
    row = first_true(~good)
    hint = f"; if these are logits, {if_logits}" if kind == "probs" else ""
    return Mistake(row, demand, _described(values[row].double(), hint))


def native(scores: NDArray[Any]) -> NDArray[Any]:
    """In a form that torch takes: this machine's byte order, and at most double precision."""
    if scores.dtype.itemsize > 8:
        return scores.astype(np.float64)
    return scores.astype(scores.dtype.newbyteorder("="), copy=False)


def summing_to_one(probs: NDArray[Any]) -> NDArray[Any]:
    """Rows divided by their sums, as softmax does to the logarithms of probabilities that were rounded."""
    scaled: NDArray[Any] = probs / probs.sum(-1, keepdims=True)
    return scaled


def as_logits(scores: NDArray[Any], kind: Kind) -> NDArray[Any]:
    """Logits as they are, and probabilities by their logarithm, which softmax undoes.

    A probability of 0, which has none, is taken for the smallest normal float32.
    """
    if kind == "logits":
        return scores
    wide = scores.astype(np.float32) if scores.dtype == np.float16 else scores
    logits: NDArray[Any] = np.log(np.maximum(wide, np.finfo(np.float32).tiny))
    return logits


def _described(row: torch.Tensor, hint: str) -> str:
    """What is wrong with a row."""
    if not bool(row.isfinite().all()):
        place = first_true(~row.isfinite())
        return f"has {float(row[place])} for class {place}"
    return f"has values from {float(row.amin()):g} to {float(row.amax()):g} and sum {float(row.sum()):.6g}{hint}"


PASS_KINDS: dict[str, Kind] = {"pass_logits": "logits", "pass_probs": "probs"}
FEWEST_PASSES = 2  # one has nothing to disagree with
MOST_PASSES = 1000  # an archive is read by as many streams
MOST_SCORES = 2**23  # of one example in all passes, which are held in memory


def find_passes(path: Path, there: Sequence[str], taken: Collection[str]) -> tuple[str, Kind] | None:
    """The name of the array that holds the passes, and its kind; what is ``taken`` for something else is not it.

    >>> find_passes(Path("a.npz"), ["logits", "labels", "pass_probs"], ("logits", "labels"))
    ('pass_probs', 'probs')
    """
    found = [name for name in PASS_KINDS if name in there and name not in taken]
    if len(found) > 1:
        raise ValueError(f"{path} has {' and '.join(found)}, and which is meant is not known; keep one of them")
    return (found[0], PASS_KINDS[found[0]]) if found else None


def check_passes_shape(
    what: str, dtype: str, is_float: bool, shape: tuple[int, ...], scores_shape: tuple[int, ...]
) -> None:
    """Refuse passes that are not floating point of shape (T, N, C), with the N and C of the scores beside them."""
    if len(shape) != 3 or shape[0] < FEWEST_PASSES or shape[1:] != scores_shape:
        wanted = ", ".join(map(str, scores_shape))
        raise ValueError(
            f"{what} must have shape (T, {wanted}): at least {FEWEST_PASSES} passes over the examples and classes of "
            f"the scores, got {shape}"
        )
    if not is_float:
        raise ValueError(f"{what} must be floating point, got {dtype}")
    passes, _, classes = shape
    if passes > MOST_PASSES or passes * classes > MOST_SCORES:
        raise ValueError(
            f"{what} has {passes:,} passes of {classes:,} classes; {MOST_PASSES:,} passes can be read, and "
            f"{MOST_SCORES:,} scores of one example"
        )


def checked_passes(source: PassesSource, block: RawBlock, first: int) -> NDArray[Any]:
    """Logits (T, n, C) of a block that begins at the row ``first``, or an error that names pass and row."""
    scores = native(block.scores)
    examples, classes = scores.shape[1:]
    mistake = first_mistake(
        scores.reshape(-1, classes),
        source.kind,
        if_logits="call the array pass_logits",
        were_bfloat16=block.were_bfloat16,
    )
    if mistake is not None:
        one_pass, row = divmod(mistake.row, examples)
        raise ValueError(
            f"{source.what}: {mistake.demand}; pass {one_pass}, row {first + row} (counted from 0) {mistake.found}"
        )
    return as_logits(scores, source.kind)
