"""T stochastic passes that a file holds beside its scores: what they are called, what they must be, and their values.

They say how far the passes disagree and nothing else: every metric is measured on the scores.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from singleshot.predictions.source import Kind, PassesSource, RawBlock
from singleshot.predictions.values import as_logits, first_mistake, native

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
