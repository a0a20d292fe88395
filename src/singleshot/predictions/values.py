"""What scores must be to be logits or probabilities, and the first row of a block that is not."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from singleshot.checks import as_tensor, finite_rows, first_true, probability_rows
from singleshot.predictions.source import Kind


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
