"""What every fit asks of its examples, and what it says about classes it never saw."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from singleshot.common.checks import as_tensor, check_labels, check_logits
from singleshot.posthoc.storage import read_parameters, write_parameters

if TYPE_CHECKING:
    from typing_extensions import Self


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


def double_probs(logits: Tensor) -> Tensor:
    """softmax(z) in float64; laid out in one piece, so that equal rows give equal bits."""
    return torch.softmax(logits.double().contiguous(), -1)


def log_probs_above_zero(values: Tensor, probs: Tensor, examples: int) -> Tensor:
    """Log-probabilities in proportion to frequencies (..., C) seen among ``examples``, none of them −∞.

    A frequency of 0 or 1 was seen N times, not for ever: 1/(N+1), one imagined example, is shared out among the
    classes, half as the uncalibrated probabilities have it and half evenly. So nothing is ruled out, classes the
    frequencies leave tied stay in their order, and where all frequencies are 0 the model's own opinion counts.
    """
    imagined = (probs + 1 / probs.shape[-1]) / (2 * (examples + 1))
    mixed = values + imagined
    return torch.log(mixed / mixed.sum(-1, keepdim=True))


def in_dtype_of(logits: Tensor, log_probs: Tensor) -> Tensor:
    """Float64 for float64 logits, float32 for all others: half precision has too few digits for log-probabilities."""
    return log_probs if logits.dtype == torch.float64 else log_probs.float()


class Scaling(ABC):
    """A fitted calibration: ``scaling(logits)`` maps logits (..., C) to logits of the same shape."""

    method: ClassVar[str]
    """The name in a saved file and on the command line."""

    @classmethod
    @abstractmethod
    def fit(cls, logits: Tensor, labels: Tensor) -> Self:
        """The calibration learned from held-out logits (N, C) and labels (N,)."""

    @abstractmethod
    def __call__(self, logits: Tensor) -> Tensor:
        """The calibrated logits; ``.softmax(-1)`` makes probabilities of them."""

    @abstractmethod
    def parameters(self) -> dict[str, object]:
        """What a file keeps of it, as plain numbers, lists and text."""

    @classmethod
    @abstractmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        """The calibration with these parameters, every one of them checked."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to a JSON file, atomically and exact to the last bit."""
        write_parameters(Path(path), self.method, self.parameters())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read what ``save`` has written; no code in the file is run. ``load_scaling`` reads any method."""
        method, parameters = read_parameters(Path(path))
        if method != cls.method:
            raise ValueError(
                f"{path} holds method {method[:50]!r}, not {cls.method!r}; load_scaling() reads any method"
            )
        return cls.from_checked_file(path, parameters)

    @classmethod
    def from_checked_file(cls, path: str | PathLike[str], parameters: Mapping[str, Any]) -> Self:
        """``from_parameters``, with the file's name in what it says."""
        try:
            return cls.from_parameters(parameters)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path} is damaged: {error}") from None


def check_classes(logits: Tensor, classes: int) -> None:
    """Refuse logits whose last dimension is not the classes the calibration was fitted on."""
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        found = logits.dtype if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"logits must be a floating point tensor, got {found}")
    if not logits.ndim or logits.shape[-1] != classes:
        raise ValueError(f"logits must have shape (..., {classes}), the classes of the fit, got {tuple(logits.shape)}")
