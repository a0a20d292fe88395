"""The layouts of scores and labels, brought to one row per example.

Classes are dimension 1 of the scores, as in ``torch.nn.functional.cross_entropy``, or dimension 2 behind T stochastic
passes: (B, C), (T, B, C), and with one label per position (B, C, H, W), (T, B, C, H, W), (B, C, L), (T, B, C, L). The
number of dimensions of the labels tells these apart; a column (B, 1) counts as (B,). A single class is the one logit,
or probability, of a binary classifier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from singleshot.common.checks import (
    as_tensor,
    check_labels,
    check_logits,
    check_scores,
    check_several_classes,
    check_tensor,
    index_hint,
)


def has_passes(scores: Tensor, labels: Tensor) -> bool:
    """Return whether scores have a leading dimension of stochastic passes, given class indices or soft labels."""
    return scores.ndim == without_column(scores, labels).ndim + (1 if labels.is_floating_point() else 2)


def without_column(scores: Tensor, labels: Tensor) -> Tensor:
    """Return a column of class indices (B, 1) as (B,), for scores (B, C) or (T, B, C)."""
    if labels.is_floating_point() or labels.ndim != 2 or labels.shape[1] != 1:
        return labels
    of_passes = scores.ndim == 3 and scores.shape[1] == len(labels) and scores.shape[::2] != labels.shape
    return labels.squeeze(1) if scores.ndim == 2 or of_passes else labels


def by_example(scores: Tensor, labels: Tensor, *, name: str = "logits") -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """Return scores (T, N, C), labels (N,) or soft labels (N, C), and the shape of the N examples.

    T is 1 for scores without passes. A single class becomes two.
    """
    check_tensor("labels", labels)
    is_soft = labels.is_floating_point()
    labels = without_column(scores, labels)
    passes = int(has_passes(scores, labels))
    fits = passes or scores.ndim == labels.ndim + (0 if is_soft else 1)
    if not fits or scores.ndim < 2 or (is_soft and labels.ndim < 2):
        if is_soft and scores.ndim > 1:
            raise TypeError(_soft_shape(scores, labels))
        raise ValueError(
            f"{name} must have shape (B, C) or (T, B, C) for labels (B,), or (B, C, ...) or (T, B, C, ...) for labels "
            f"(B, ...), got {tuple(scores.shape)} for labels {tuple(labels.shape)}{index_hint(labels, scores.shape)}"
        )
    one_pass = scores.shape[passes:]
    examples = (one_pass[0], *one_pass[2:])
    if is_soft and labels.shape != one_pass:
        raise ValueError(_soft_shape(scores, labels))
    if not is_soft and labels.shape != examples:
        if not passes and len(scores) != len(labels) == scores.shape[1]:  # of (T, B, C, ...), such as one-hot labels
            examples = (scores.shape[1], *scores.shape[3:])
        raise ValueError(
            f"labels must have shape {examples}, one per example, got {tuple(labels.shape)}"
            + (_class_last_hint(scores, labels, passes, name) or index_hint(labels, scores.shape))
        )
    scores = scores if passes else scores.unsqueeze(0)
    scores = scores.movedim(2, -1).reshape(len(scores), -1, one_pass[1])
    labels = labels.movedim(1, -1).reshape(-1, one_pass[1]) if is_soft else labels.reshape(-1)
    if one_pass[1] == 1:
        scores = two_classes(scores, name)
        labels = two_classes(labels, "probs").to(labels.dtype) if is_soft else labels
    return scores, labels, examples


def two_classes(scores: Tensor, name: str) -> Tensor:
    """Return the scores (..., 2) of a binary classifier from its one logit or probability (..., 1).

    Probabilities become float64: in float32, 1 − p is 1 for every p below 3e-8, and examples would be tied.
    """
    if name != "probs":
        return torch.cat([torch.zeros_like(scores), scores], dim=-1)
    if scores.is_floating_point():
        scores = (scores.cpu() if scores.device.type == "mps" else scores).double()  # mps has no float64
    return torch.cat([1 - scores, scores], dim=-1)


def counted_examples(
    scores: Any, labels: Any, *, name: str, ignore_index: int | None = None, classes: Sequence[Any] | None = None
) -> tuple[Tensor, Tensor]:
    """Return scores (N, C) and labels (N,) of the examples that are not ignored, from tensors, arrays or lists.

    Scores (N,) are those of a binary classifier. With ``classes``, the labels are names of classes.
    """
    scores, labels = as_tensor(scores, name), class_indices(labels, classes)
    labels = without_column(scores, labels)
    if scores.ndim == labels.ndim == 1:
        scores = scores.unsqueeze(1)
    if labels.is_floating_point():
        raise TypeError(
            f"labels must be integer class indices, got {labels.dtype}; metrics take no soft labels"
            + index_hint(labels, scores.shape)
        )
    if has_passes(scores, labels):
        raise ValueError(
            f"{name} must have shape (N, C), or (N, C, ...) for labels (N, ...), got {tuple(scores.shape)} for labels "
            f"{tuple(labels.shape)}; average stochastic passes first, with predictive_mean"
        )
    scores, labels, _ = by_example(scores, labels, name=name)
    check_scores(scores[0], ("(N, C)",), name=name)
    labels = check_labels(labels, *scores.shape[1:], ignore_index=ignore_index)
    if ignore_index is None:
        return scores[0], labels
    counted = labels != ignore_index
    return scores[0][counted.to(scores.device)], labels[counted]


def fitting_set(logits: Any, labels: Any, *, one_logit: bool = False) -> tuple[Tensor, Tensor]:
    """Return finite logits (N, C) and labels (N,) in [0, C), from tensors, arrays or lists.

    With ``one_logit``, logits (N,) or (N, 1) are those of a binary classifier and become two classes.
    """
    logits, labels = as_tensor(logits, "logits"), as_tensor(labels, "labels")
    if one_logit and (logits.ndim == labels.ndim == 1 or logits.shape[1:] == (1,)):
        logits = two_classes(logits.reshape(-1, 1), "logits")
    check_logits(logits, ("(N, C)",))
    check_several_classes(logits)
    return logits, check_labels(labels, *logits.shape)


def class_indices(labels: Any, classes: Sequence[Any] | None) -> Tensor:
    """Return labels as a tensor; names of classes as their positions in ``classes``."""
    if classes is None:
        first = labels[0] if isinstance(labels, list | tuple) and labels else None
        if isinstance(first, str) or getattr(getattr(labels, "dtype", None), "kind", None) in {"U", "S", "O"}:
            raise TypeError(
                "labels are names of classes; pass classes= as well, the names in the order of the scores, such as "
                "classifier.classes_ of scikit-learn"
            )
        return as_tensor(labels, "labels")
    given, names = np.asarray(labels), np.asarray(classes)
    order = np.argsort(names, kind="stable")
    index = order[np.searchsorted(names, given, sorter=order).clip(max=len(names) - 1)]
    unknown = names[index] != given
    if unknown.any():
        raise ValueError(f"labels must be in classes={names.tolist()}, got {given[unknown].flat[0]!r}")
    return torch.from_numpy(index)


def _soft_shape(scores: Tensor, labels: Tensor) -> str:
    wanted = scores.shape[-max(labels.ndim, 2) :]
    return (
        f"labels must be integer class indices, got {labels.dtype} of shape {tuple(labels.shape)}; soft labels need "
        f"the shape of one pass, {tuple(wanted)} of logits {tuple(scores.shape)}" + index_hint(labels, ())
    )


def _class_last_hint(scores: Tensor, labels: Tensor, passes: int, name: str) -> str:
    if scores.ndim < 3 + passes or scores.shape[passes:-1] != labels.shape:
        return ""
    return (
        f"; the classes must be dimension {1 + passes}, as in torch.nn.functional.cross_entropy: pass "
        f"{name}.movedim(-1, {1 + passes})"
    )
