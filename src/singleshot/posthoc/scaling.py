"""What every calibration after training has in common: it maps logits to logits, and lives in a plain file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from singleshot.posthoc.storage import read_parameters, write_parameters

if TYPE_CHECKING:
    from typing_extensions import Self


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
        except ValueError as error:
            raise ValueError(f"{path} is damaged: {error}") from None


def check_classes(logits: Tensor, classes: int) -> None:
    """Refuse logits whose last dimension is not the classes the calibration was fitted on."""
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        found = logits.dtype if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"logits must be a floating point tensor, got {found}")
    if not logits.ndim or logits.shape[-1] != classes:
        raise ValueError(f"logits must have shape (..., {classes}), the classes of the fit, got {tuple(logits.shape)}")
