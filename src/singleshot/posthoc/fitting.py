"""What every fit asks of its examples, and what it says about classes it never saw."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from singleshot.checks import as_tensor, check_labels, check_logits


def fitting_set(logits: Any, labels: Any) -> tuple[Tensor, Tensor]:
    """Finite logits (N, C) and labels (N,) in [0, C), from tensors, arrays or lists; or an error."""
    logits, labels = as_tensor(logits, "logits"), as_tensor(labels, "labels")
    check_logits(logits, ("(N, C)",))
    return logits, check_labels(labels, *logits.shape)


def warn_of_missing_classes(labels: Tensor, classes: int, consequence: str) -> None:
    """Say which classes have no example, and what that means for a method that learns something about each class."""
    missing = (torch.bincount(labels, minlength=classes) == 0).nonzero().squeeze(1).tolist()
    if not missing:
        return
    shown = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
    which = f"class {shown} has" if len(missing) == 1 else f"{len(missing)} of {classes} classes ({shown}) have"
    few = f" (there are fewer examples, {len(labels)}, than classes)" if len(labels) < classes else ""
    warnings.warn(
        f"{which} no example in the fitting set{few}: {consequence}. TemperatureScaling needs no example of each.",
        stacklevel=4,  # the caller of fit, past its no_grad
    )
