"""Argument checks shared by the whole library. A wrong type raises TypeError, a wrong value ValueError.

Checks of tensor values (finite logits, labels in range) read the data. That is cheap on the CPU. On an accelerator it
would synchronise every training step, and a compiled graph cannot branch on it, so they are skipped there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any, SupportsFloat

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from singleshot.common.text import quoted

RowCheck = Callable[[Tensor], Tensor]
"""Maps scores (N, C) to a mask (N,) of the valid rows."""

FINITE = "logits must be finite, with no NaN or infinity"
LOGITS = "logits must be numbers, with no NaN or +infinity and not all −infinity"
PROBABILITIES = (
    "probs must lie in [0, 1] and sum to 1 in each row (pass other scores as logits=, or to evaluate with "
    'kind="logits")'
)


def check_tensor(name: str, value: object) -> None:
    """Check that a value is a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a torch tensor, got {type(value).__name__}; convert it with torch.as_tensor()")


def check_loader(name: str, value: object) -> None:
    """Refuse what has no batches, and a dataset and a single batch, which would be read example by example."""
    hint = ""
    if not isinstance(value, Iterable | Dataset):
        hint = type(value).__name__
    elif isinstance(value, Dataset) and not isinstance(value, IterableDataset):
        hint = f"{type(value).__name__}; wrap the dataset in a DataLoader"
    elif isinstance(value, tuple | list) and any(isinstance(part, Tensor) for part in value):
        hint = "one batch; pass [(x, y)]"
    if hint:
        raise TypeError(f"{name} must be a loader of batches, got {hint}")


def check_scores(scores: Tensor, shapes: tuple[str, ...], *, name: str = "logits") -> None:
    """Check that scores are a non-empty floating point tensor of one of these shapes, such as "(T, B, C)"."""
    check_tensor(name, scores)
    ranks = {shape.count(",") + 1 for shape in shapes}
    if scores.ndim not in ranks:
        raise ValueError(f"{name} must have shape {' or '.join(shapes)}, got {tuple(scores.shape)}")
    if not scores.is_floating_point():
        raise TypeError(f"{name} must be floating point, got {scores.dtype}")
    if 0 in scores.shape:
        raise ValueError(f"{name} must hold at least one example and one class, got shape {tuple(scores.shape)}")


def check_logits(logits: Tensor, shapes: tuple[str, ...], counted: Tensor | None = None) -> None:
    """Check the shape of logits and that they are finite; ``counted`` masks the examples to look at."""
    check_scores(logits, shapes)
    if values_can_be_read(logits):
        rows = logits.detach() if counted is None else logits.detach()[..., counted, :]
        if rows.numel():
            check_rows(rows.reshape(-1, rows.shape[-1]), finite_rows, FINITE)


def check_rows(scores: Tensor, valid_rows: RowCheck, requirement: str, whole: Tensor | None = None) -> None:
    """Raise if a row of scores (N, C) is invalid; the message counts the invalid rows of the ``whole`` tensor."""
    if bool(valid_rows(scores).all()):
        return
    whole = scores if whole is None else whole
    bad = ~torch.cat([valid_rows(part) for part in torch.split(whole, 2**14)])
    row = first_true(bad)
    raise ValueError(
        f"{requirement}: {int(bad.sum())} of {len(bad)} rows are invalid; the first is row {row}, with values from "
        f"{float(whole[row].amin()):g} to {float(whole[row].amax()):g} and sum {float(whole[row].double().sum()):g}"
    )


def finite_rows(logits: Tensor) -> Tensor:
    """Return a mask of the rows without NaN or infinity."""
    # A finite total proves that all rows are finite, in a fraction of the time. The converse fails if it overflows.
    wide = torch.float32 if logits.dtype.itemsize == 2 else None
    if bool(logits.sum(dtype=wide).isfinite()):
        return torch.ones(logits.shape[:-1], dtype=torch.bool, device=logits.device)
    return torch.isfinite(logits.amax(-1)) & torch.isfinite(logits.amin(-1))


def logit_rows(logits: Tensor) -> Tensor:
    """Return a mask of the rows with a finite largest logit; −∞ is the logarithm of probability 0."""
    finite = finite_rows(logits)
    return finite if bool(finite.all()) else torch.isfinite(logits.amax(-1))


def probability_rows(probs: Tensor) -> Tensor:
    """Return a mask of the rows that lie in [0, 1] and sum to 1, up to rounding, also to one to four decimals."""
    tolerance = 1e-3 if probs.dtype in (torch.float32, torch.float64) else 1e-2
    total = probs.sum(-1, dtype=torch.float64 if probs.dtype == torch.float64 else torch.float32)
    in_range = (probs.amin(-1) >= 0) & (probs.amax(-1) <= 1 + 1e-6)
    valid = ((total - 1).abs() <= tolerance) & in_range
    doubtful = (in_range & ~valid).nonzero().squeeze(-1)
    if probs.ndim == 2 and len(doubtful):
        valid[doubtful] = (total[doubtful] - 1).abs() <= rounding_error(probs[doubtful])
    return valid


def rounding_error(probs: Tensor) -> Tensor:
    """Return how far the sum of each row (N, C) can be from 1 because its values are rounded to a few decimals.

    It is C halves of the last decimal, and at most 0.1; 0 for a row that is not rounded to four decimals or fewer.

    >>> rounding_error(torch.tensor([[0.33, 0.33, 0.33], [0.3331, 0.3331, 0.33]]))
    tensor([0.0150, 0.0002])
    """
    error = torch.zeros(len(probs), dtype=torch.float64, device=probs.device)
    for decimals in (4, 3, 2, 1):
        scaled = probs.double() * 10**decimals
        rounded = ((scaled - scaled.round()).abs() <= 2e-3).all(-1)
        error[rounded] = min(probs.shape[1] * 0.5 * 10**-decimals, 0.1) * (1 + 1e-6)
    return error.to(torch.float64 if probs.dtype == torch.float64 else torch.float32)


def check_labels(labels: Tensor, examples: int, classes: int, *, ignore_index: int | None = None) -> Tensor:
    """Return the labels as int64 after checking that there is one class index per example."""
    check_tensor("labels", labels)
    if labels.shape != (examples,):
        hint = index_hint(labels, (examples, classes))
        raise ValueError(f"labels must have shape ({examples},), one per example, got {tuple(labels.shape)}{hint}")
    if labels.is_floating_point() or labels.is_complex() or (labels.dtype == torch.bool and classes != 2):
        hint = ", which name two classes only" if labels.dtype == torch.bool else index_hint(labels, ())
        raise TypeError(f"labels must be integer class indices, got {labels.dtype}{hint}")
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
                + counted_from_one(int(labels.amin()), int(labels.amax()), classes)
            )
    return labels


def index_hint(labels: Tensor, scores: tuple[int, ...]) -> str:
    """Say how to get class indices from labels that are none, given the shape of the scores."""
    if labels.ndim > 1 and labels.shape[1] > 1 and labels.shape in {scores, scores[1:]}:
        return (
            "; for one-hot labels, pass labels.argmax(1); for several labels per example, pass scores (B, 1, L), "
            "or use MultiLabelCalibration"
        )
    return "; convert class indices to integers" if labels.is_floating_point() else ""


def counted_from_one(least: int, largest: int, classes: int) -> str:
    """Say that labels outside of [0, classes) may be counted from 1, if their range is that."""
    if least < 1 or largest != classes:
        return ""
    return f". They lie in 1 … {classes}: if they are counted from 1, subtract 1"


def check_several_classes(logits: Tensor) -> None:
    """Refuse the one logit of a binary classifier, whose softmax would be 1."""
    if logits.shape[-1] == 1:
        raise ValueError(
            f"logits must have at least two classes, got shape {tuple(logits.shape)}; for the one logit of a binary "
            "classifier, pass torch.cat([torch.zeros_like(logits), logits], dim=-1)"
        )


def check_passes(logits: Tensor) -> None:
    """Check that logits (T, B, C) hold at least two stochastic passes."""
    if len(logits) < 2:
        raise ValueError(
            f"logits must hold at least 2 stochastic passes, got shape (T, B, C) = {tuple(logits.shape)}; "
            "increase samples="
        )


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Check that a value is one of the known names."""
    if value not in choices:
        error = ValueError if isinstance(value, str) else TypeError
        raise error(f"{name}={quoted(value)} is unknown; choose one of {', '.join(choices)}")


def check_size(name: str, value: object, least: int) -> int:
    """Return a whole number of at least ``least`` as an int."""
    message = f"{name} must be a whole number of at least {least}, got {quoted(value)}"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(message)
    if value < least:
        raise ValueError(message)
    return int(value)


def check_range(name: str, value: SupportsFloat, interval: str) -> float:
    """Return a real number, such as a numpy scalar, as a float if it lies in an interval such as "[0, 1)"."""
    if isinstance(value, bool | str | bytes) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number, got {quoted(value)}")
    number = float(value)
    low, high = map(float, interval[1:-1].split(","))
    above = number >= low if interval[0] == "[" else number > low
    below = number <= high if interval[-1] == "]" else number < high
    if not (above and below):
        raise ValueError(f"{name} must lie in {interval}, got {value}")
    return number


def as_tensor(values: Any, name: str) -> Tensor:
    """Convert a tensor, an array, a pandas Series or DataFrame, or a list to a tensor without gradient."""
    if isinstance(values, Tensor):
        return values.detach()
    if hasattr(values, "to_numpy"):  # pandas, without importing it
        values = values.to_numpy()
    try:
        with warnings.catch_warnings():  # a memory-mapped array is read-only, and only read here
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            return torch.as_tensor(values, device="cpu")
    except TypeError as error:
        raise TypeError(f"{name} cannot be converted to a tensor: {error}") from None
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"{name} cannot be converted to a tensor: {error}") from None


def first_true(mask: Tensor) -> int:
    """Return the index of the first True."""
    return int(mask.int().argmax())


def values_can_be_read(tensor: Tensor) -> bool:
    """Return whether reading values is cheap: on the CPU and outside of a compiled graph."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()
