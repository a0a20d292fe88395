"""How strongly to regularise, chosen by cross-validation on the fitting set itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from singleshot.checks import check_non_negative
from singleshot.data.split import balanced_order
from singleshot.posthoc.affine import Array, Problem, solve

FOLDS = 5
STRENGTHS = (1e5, 1e4, 1e3, 1e2, 1e1, 1e0, 1e-1)  # from one that leaves the temperature alone to hardly any
OnExamples = Callable[[Tensor, Tensor], Problem]
"""Makes the problem for these logits and labels."""


def chosen_strength(
    logits: Tensor, labels: Tensor, with_strength: Callable[[float], OnExamples], strengths: Sequence[float] = STRENGTHS
) -> float:
    """The strength whose fits to four fifths of the examples have the least NLL on the other fifth.

    The folds hold all classes in proportion and are the same every time. Strengths are tried from strong to weak, each
    from the answer of the one before, until the held-out NLL stops falling.
    """
    folds = min(FOLDS, len(labels))
    if folds < 2:
        return strengths[0]  # nothing to learn from one example but its temperature
    fold = torch.empty(len(labels), dtype=torch.int64)
    fold[balanced_order(labels.cpu())] = torch.arange(len(labels)) % folds
    parts = [((fold != k).nonzero().squeeze(1), (fold == k).nonzero().squeeze(1)) for k in range(folds)]
    answers: list[Array | None] = [None] * folds
    best, least = strengths[0], float("inf")
    for strength in strengths:
        total = 0.0
        for k, (inside, outside) in enumerate(parts):
            problem = with_strength(strength)(logits[inside], labels[inside])
            start = answers[k]
            answers[k] = answer = solve(
                problem, np.zeros(len(problem.prior())) if start is None else start, exactly=False
            )
            held_out = with_strength(strength)(logits[outside], labels[outside])
            total += held_out.nll_and_gradient(answer)[0] * len(outside)
        if not total < least:
            break
        best, least = strength, total
    return best


def check_strength(name: str, value: float | None) -> None:
    """Refuse what would not regularise: without it, some labels have no finite best fit."""
    if value is not None:
        check_non_negative(name, value)
        if not value:
            raise ValueError(f"{name} must be above 0, got {value}; None chooses it by cross-validation")
