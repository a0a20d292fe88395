"""The base class of all scalings, the checks their fits share, and the JSON file a scaling is saved in.

    {"format": "singleshot-scaling", "version": 1, "method": "temperature", "parameters": {"temperature": 1.5}}

Numbers are written with all their digits, so that a loaded scaling is identical bit for bit. Reading a file runs no
code from it.
"""

from __future__ import annotations

import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import msgspec
import torch
from torch import Tensor, nn

from singleshot.common.checks import values_can_be_read
from singleshot.common.files import write_text

if TYPE_CHECKING:
    from typing_extensions import Self

MAX_BYTES = 2**31  # enough for the matrix of 10,000 classes


class SavedScaling(msgspec.Struct):
    """The content of a file, with the parameters not decoded yet."""

    format: Literal["singleshot-scaling"]
    version: int
    method: str = ""
    parameters: msgspec.Raw = msgspec.Raw(b"{}")


class Scaling(nn.Module, ABC):
    """A fitted calibration: a module without trainable parameters that maps logits (..., C) to logits (..., C).

    It can be the last module of an ``nn.Sequential``. The fitted values are float64 buffers. ``.to()`` moves them to
    another device, but never rounds them: ``.half()``, ``.float()`` and ``.to(dtype)`` keep them in float64.
    """

    method: ClassVar[str]
    """The name in a saved file and on the command line."""
    fields: ClassVar[dict[str, Any]]
    """The arguments of the constructor, and their types in a saved file."""

    @classmethod
    @abstractmethod
    def fit(cls, logits: Tensor, labels: Tensor) -> Self:
        """Fit to held-out logits (N, C) and labels (N,)."""

    @abstractmethod
    def forward(self, logits: Tensor) -> Tensor:
        """Return the calibrated logits; ``.softmax(-1)`` gives the probabilities."""

    def to_dict(self) -> dict[str, Any]:
        """Return the arguments of the constructor as plain numbers, lists and strings."""
        return {name: value.tolist() if isinstance(value, Tensor) else value for name, value in self._arguments()}

    def _arguments(self) -> Iterator[tuple[str, Any]]:
        return ((name, getattr(self, name)) for name in self.fields)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a JSON file atomically, exact to the last bit."""
        content = {"format": "singleshot-scaling", "version": 1, "method": self.method, "parameters": self.to_dict()}
        write_text(Path(path), json.dumps(content, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a file written by ``save``. No code in the file is run. ``load_scaling`` reads any method."""
        return read_scaling(Path(path), {cls.method: cls})

    def extra_repr(self) -> str:
        """Return the arguments of the constructor, with shapes in place of long tensors."""
        return ", ".join(
            f"{name}={tuple(value.shape) if isinstance(value, Tensor) and value.ndim else value}"
            for name, value in self._arguments()
        )

    def _register_float64(self, **buffers: Any) -> None:
        for name, values in buffers.items():
            buffer = torch.as_tensor(values, dtype=torch.float64).detach().clone()
            if not bool(buffer.isfinite().all()):
                raise ValueError(f"{name} must be finite, with no NaN or infinity")
            self.register_buffer(name, buffer)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Apply a conversion such as ``.to()`` to the buffers, but keep their dtype."""

        def convert(buffer: Tensor) -> Tensor:
            converted = fn(buffer)
            return converted if converted.dtype == buffer.dtype else buffer.to(converted.device)

        super()._apply(convert, recurse)  # type: ignore[no-untyped-call]
        return self


AnyScaling = TypeVar("AnyScaling", bound=Scaling)


def read_scaling(path: Path, methods: Mapping[str, type[AnyScaling]]) -> AnyScaling:
    """Read a saved scaling of one of these methods, and check all of its content."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a file; save() of a fitted scaling writes one")
    if not path.is_file():
        raise ValueError(f"{path}: no such file; save() of a fitted scaling writes such a file")
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path} is larger than {MAX_BYTES} bytes, so it is not a saved scaling")
    try:
        saved = msgspec.json.decode(path.read_bytes(), type=SavedScaling)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a saved scaling: {str(error)[:200]}") from None
    if saved.version != 1:
        raise ValueError(f"{path} has format version {saved.version}, this version of singleshot reads 1; update it")
    if saved.method not in methods:
        raise ValueError(f"{path} contains method {saved.method[:50]!r}, expected {' or '.join(methods)}")
    scaling = methods[saved.method]
    fields = msgspec.defstruct("Parameters", list(scaling.fields.items()), forbid_unknown_fields=True)
    try:
        return scaling(**msgspec.structs.asdict(msgspec.json.decode(saved.parameters, type=fields)))
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {str(error)[:200]}") from None


def warn_missing_classes(labels: Tensor, classes: int, consequence: str, *, stacklevel: int = 4) -> None:
    """Warn about classes without an example, for a method that fits something to each class."""
    missing = (torch.bincount(labels, minlength=classes) == 0).nonzero().squeeze(1).tolist()
    if not missing:
        return
    shown = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
    which = f"class {shown} has" if len(missing) == 1 else f"{len(missing)} of {classes} classes ({shown}) have"
    few = f" (only {len(labels)} examples for {classes} classes)" if len(labels) < classes else ""
    warnings.warn(
        f"{which} no example in the fitting set{few}: {consequence}. TemperatureScaling does not need every class.",
        stacklevel=stacklevel,  # by default the caller of a fit that is decorated with no_grad
    )


def check_classes(logits: Tensor, classes: int | None) -> None:
    """Check that logits are a floating point tensor (..., C), with the classes of the fit if these are given."""
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        found = logits.dtype if isinstance(logits, Tensor) else type(logits).__name__
        raise TypeError(f"logits must be a floating point tensor, got {found}")
    if classes is not None and (not logits.ndim or logits.shape[-1] != classes):
        raise ValueError(f"logits must have shape (..., {classes}), the classes of the fit, got {tuple(logits.shape)}")


def to_output_dtype(scores: Tensor, logits: Tensor) -> Tensor:
    """Return float64 scores as float32, unless the logits are float64: half precision has too few digits."""
    check_finite(scores, logits)
    if logits.dtype == torch.float64:
        return scores
    return scores.clamp(min=torch.finfo(torch.float32).min).float()


def check_finite(scaled: Tensor, logits: Tensor) -> Tensor:
    """Return scaled logits; raise if they overflow where the logits are finite."""
    if values_can_be_read(scaled) and not bool(scaled.isfinite().all()) and bool(logits.isfinite().all()):
        raise ValueError(
            f"the scaling gives logits that are not finite in {scaled.dtype}: its parameters are too extreme for "
            f"logits from {float(logits.min()):g} to {float(logits.max()):g}"
        )
    return scaled
