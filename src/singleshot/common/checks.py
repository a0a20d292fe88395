"""What every entrance asks of its arguments, and how it says what is wrong.

Checks of values (is every logit finite, is every label a class?) read the data. On the CPU that costs next to nothing;
on an accelerator it would stall every training step, and a compiled graph cannot branch on it: there they are left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

RowCheck = Callable[[Tensor], Tensor]
"""Maps scores (N, C) to a mask (N,) of the rows that are as they should be."""

FINITE = "logits must be finite, with no NaN or infinity"
PROBABILITIES = "probs must lie in [0, 1] and sum to 1 in each row (other scores go in as logits=)"


def check_scores(scores: Tensor, shapes: tuple[str, ...], *, name: str = "logits") -> None:
    """Refuse scores whose shape is none of these, such as "(T, B, C)", that have no rows, or that are not floats."""
    if not isinstance(scores, Tensor):
        raise ValueError(f"{name} must be a torch tensor, got {type(scores).__name__}; torch.as_tensor() makes one")
    ranks = {shape.count(",") + 1 for shape in shapes}
    if scores.ndim not in ranks:
        raise ValueError(f"{name} must have shape {' or '.join(shapes)}, got {tuple(scores.shape)}")
    if not scores.is_floating_point():
        raise ValueError(f"{name} must be floating point, got {scores.dtype}")
    if 0 in scores.shape:
        raise ValueError(f"{name} must hold at least one example and one class, got shape {tuple(scores.shape)}")


def check_logits(logits: Tensor, shapes: tuple[str, ...], counted: Tensor | None = None) -> None:
    """Refuse logits of another shape, and NaN or infinity among them, or among the examples that are ``counted``."""
    check_scores(logits, shapes)
    if values_can_be_read(logits):
        rows = logits.detach() if counted is None else logits.detach()[..., counted, :]
        if rows.numel():
            check_rows(rows.reshape(-1, rows.shape[-1]), finite_rows, FINITE)


def check_rows(scores: Tensor, rows_are_fine: RowCheck, demand: str, whole: Tensor | None = None) -> None:
    """Refuse scores (N, C) with a bad row, saying how many there are in the ``whole`` these are a part of."""
    if bool(rows_are_fine(scores).all()):
        return
    whole = scores if whole is None else whole
    bad = ~torch.cat([rows_are_fine(part) for part in torch.split(whole, 2**14)])
    row = first_true(bad)
    raise ValueError(
        f"{demand}: {int(bad.sum())} of {len(bad)} rows are not so; the first is row {row}, with values from "
        f"{float(whole[row].amin()):g} to {float(whole[row].amax()):g} and sum {float(whole[row].double().sum()):g}"
    )


def finite_rows(logits: Tensor) -> Tensor:
    """Rows without NaN or infinity: both show in a row's largest or smallest value."""
    # They show in the sum of all as well, which takes a fraction of the time; a sum may overflow without them.
    wide = torch.float32 if logits.dtype.itemsize == 2 else None
    if bool(logits.sum(dtype=wide).isfinite()):
        return torch.ones(logits.shape[:-1], dtype=torch.bool, device=logits.device)
    return torch.isfinite(logits.amax(-1)) & torch.isfinite(logits.amin(-1))


def probability_rows(probs: Tensor) -> Tensor:
    """Rows that lie in [0, 1] and sum to 1, up to rounding."""
    # Files hold probabilities rounded to a few digits, and half precision has no more of them.
    tolerance = 1e-3 if probs.dtype in (torch.float32, torch.float64) else 1e-2
    total = probs.sum(-1, dtype=torch.float64 if probs.dtype == torch.float64 else torch.float32)
    return ((total - 1).abs() <= tolerance) & (probs.amin(-1) >= 0) & (probs.amax(-1) <= 1 + 1e-6)


def check_labels(labels: Tensor, examples: int, classes: int, *, ignore_index: int | None = None) -> Tensor:
    """The labels as int64, or an error: one integer in [0, classes) per example."""
    if not isinstance(labels, Tensor):
        raise ValueError(f"labels must be a torch tensor, got {type(labels).__name__}; torch.as_tensor() makes one")
    if labels.shape != (examples,):
        raise ValueError(f"labels must have shape ({examples},), one per example, got {tuple(labels.shape)}")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ValueError(f"labels must be integer class indices, got {labels.dtype}")
    labels = labels.long()  # before any comparison: an 8-bit label would wrap around
    if values_can_be_read(labels) and not (labels.amin() >= 0 and labels.amax() < classes):
        wrong = (labels < 0) | (labels >= classes)
        if ignore_index is not None:
            wrong &= labels != ignore_index
        if bool(wrong.any()):
            row = first_true(wrong)
            raise ValueError(
                f"labels must lie in [0, {classes}), the classes of the scores: {int(wrong.sum())} of {examples} do "
                f"not, the first is labels[{row}] = {int(labels[row])}"
            )
    return labels


def check_passes(logits: Tensor) -> None:
    """Refuse a single pass where the disagreement of several is asked for."""
    if len(logits) < 2:
        raise ValueError(
            f"logits must hold at least 2 passes to disagree, got shape (T, B, C) = {tuple(logits.shape)}; sample more"
        )


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse what is not one of the known names, and list them."""
    if value not in choices:
        raise ValueError(f"{name}={value!r} is unknown; choose one of {', '.join(choices)}")


def check_size(name: str, value: object, least: int) -> int:
    """A whole number of at least this, or an error."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def check_fraction(name: str, value: float) -> None:
    """Refuse a value outside [0, 1]."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must lie in [0, 1], got {value}")


def check_non_negative(name: str, value: float) -> None:
    """Refuse a negative value, and NaN and infinity with it."""
    if not 0 <= value < float("inf"):
        raise ValueError(f"{name} must be a finite number of at least 0, got {value}")


def as_tensor(values: Any, name: str) -> Tensor:
    """A tensor, or whatever numpy or a list can be made into one, without its gradient."""
    if isinstance(values, Tensor):
        return values.detach()
    try:
        with warnings.catch_warnings():  # a memory-mapped array is read-only, and only read here
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            return torch.as_tensor(values, device="cpu")
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} cannot be read as a tensor: {error}") from None


def first_true(mask: Tensor) -> int:
    """The position of the first True."""
    return int(mask.int().argmax())


def values_can_be_read(tensor: Tensor) -> bool:
    """Whether looking at values costs nothing that matters."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def check_counts(**counts: int) -> None:
    """Refuses a named count that is not a whole number of at least 1."""
    for name, count in counts.items():
        check_size(name, count, least=1)
