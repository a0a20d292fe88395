"""Export of a classifier, which is compared with the exported file before the file is kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from singleshot.common.checks import check_choice, check_range
from singleshot.common.environment import describe_environment
from singleshot.common.files import check_writable, write_atomically
from singleshot.data.augmentation import Normalization
from singleshot.export.formats import ONNX_PACKAGES, read_onnx, read_program, write_onnx, write_program
from singleshot.export.inputs import Inputs, read_inputs
from singleshot.export.metadata import FORMAT, require_packages
from singleshot.export.parity import BATCHES, Program, check_parity
from singleshot.export.program import Classifier, count_classes, trace
from singleshot.posthoc import TemperatureScaling

Writer = Callable[[torch.export.ExportedProgram, Path, dict[str, Any]], None]
Reader = Callable[[Path], Program]

FORMATS: dict[str, tuple[str, Writer, Reader]] = {
    "onnx": (".onnx", write_onnx, read_onnx),
    "torch-export": (".pt2", write_program, read_program),
}
"""Format name to file suffix, writer and reader."""


@dataclass(frozen=True)
class Exported:
    """A file that was written, its metadata, and its largest difference from the model."""

    path: Path
    facts: dict[str, Any]
    largest_difference: float  # of logits and probabilities, relative to the largest logit if that is above 1


def export_model(
    model: nn.Module,
    path: Path | str,
    *,
    example: Tensor | Sequence[Tensor] | Mapping[str, Tensor],
    format: str = "onnx",
    input_names: Sequence[str] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    class_names: Sequence[str] | None = None,
    temperature: float | TemperatureScaling | None = None,
    about: dict[str, Any] | None = None,
    overwrite: bool = True,
) -> Exported:
    """Write a classifier as one file that maps inputs to ``logits`` and ``probs``, for any batch size, in float32.

    Dropout and stochastic depth are in evaluation mode. The file is run on random inputs and kept only if its logits
    and probabilities agree with those of the model to 1e-5, relative to the largest logit if that is above 1 (float32
    has no more digits). Otherwise `ParityError` is raised. The model itself is not changed.

    A ``.pt2`` file is read with ``torch.export.load``, which may run code in it: load only files that you trust.
    `read_facts` reads the metadata of a file without running it.

    Args:
        model: an ``nn.Module`` that maps inputs to logits (N, C), or to an output that has them as ``logits``.
        path: the file to write: ``.onnx``, or ``.pt2`` for torch-export.
        example: inputs (N, ...) with the shape and dtype of the inputs of the file, except for the number of rows: a
            tensor, a tuple of the model's inputs by position, or a dict of its inputs by name.
        format: ``onnx`` or ``torch-export``.
        input_names: of the inputs in an ONNX file; by default the keys of a dict, ``images`` for one tensor of images,
            ``inputs`` for another tensor, and ``input_0``, ``input_1`` and so on for a tuple.
        mean: of each channel of pixels in [0, 1]. With mean and std the file takes pixels (N, channels, H, W) in
            [0, 255], with the dtype of the example, and normalizes them: (x / 255 − mean) / std. Without them it takes
            the inputs of the model.
        std: of each channel; the 0 of a constant channel counts as 1.
        class_names: one per output, to be stored in the file.
        temperature: a number, or a `TemperatureScaling`; it divides the logits. It is folded into weights and bias of
            the last layer if that is linear. Otherwise the division is the last step.
        about: more metadata to be stored in the file, as JSON values.
        overwrite: whether a file at this path is replaced; otherwise it is an error.

    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = export_model(model, f"{folder}/a.pt2", example=torch.zeros(1, 1, 8, 8), format="torch-export",
    ...                         class_names=["cat", "dog"], temperature=2.0)
    >>> done.facts["class_names"], done.facts["temperature"], done.facts["temperature_folded"]
    (['cat', 'dog'], 2.0, True)
    """
    path = Path(path)
    _check_path(path, format, overwrite=overwrite)
    given = read_inputs(example, input_names)
    _check_normalization(given, mean, std)
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be an nn.Module, got {type(model).__name__}")
    if isinstance(temperature, TemperatureScaling):
        temperature = temperature.temperature
    if temperature is not None:
        check_range("temperature", temperature, "(0, inf)")
    if format == "onnx":
        require_packages(*ONNX_PACKAGES)
    normalization = None if mean is None or std is None else Normalization(tuple(mean), tuple(std))
    inputs = given.like(max(BATCHES), pixels=normalization is not None)
    classifier = Classifier(model, normalization=normalization, temperature=temperature)
    classes = count_classes(classifier, inputs)
    if class_names is not None and len(class_names) != classes:
        raise ValueError(f"class_names must name the model's {classes} classes, got {len(class_names)} names")
    program, folded = trace(classifier, inputs.first(2))  # a batch of one would become a constant
    facts = {
        **(about or {}),
        "format": FORMAT,
        "class_names": None if class_names is None else [str(name) for name in class_names],
        "classes": classes,
        "inputs": [
            {
                "name": name,
                "shape": ["batch", *tensor.shape[1:]],
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "values": "pixels from 0 to 255; normalized inside" if normalization else "inputs of the model",
            }
            for name, tensor in zip(given.names, given.tensors, strict=True)
        ],
        "outputs": {
            "logits": "unnormalised" if temperature is None else "unnormalised, divided by the temperature",
            "probs": "softmax of the logits",
        },
        "mean": None if mean is None else [float(value) for value in mean],
        "std": None if std is None else [float(value) for value in std],
        "temperature": None if temperature is None else float(temperature),
        "temperature_folded": folded,
        "versions": {name: describe_environment()[name] for name in ("singleshot", "torch")},
    }
    difference = math.nan
    _, write, read = FORMATS[format]

    def write_and_check(temporary: Path) -> None:
        nonlocal difference
        write(program, temporary, facts)
        difference = check_parity(lambda batch: batch.call(classifier), read(temporary), inputs)

    write_atomically(path, write_and_check)
    return Exported(path, facts, difference)


def _check_path(path: Path, format: str, *, overwrite: bool) -> None:
    """Check that the path can be written to, before any work is done."""
    check_choice("format", format, tuple(FORMATS))
    suffix = FORMATS[format][0]
    if path.suffix != suffix:
        raise ValueError(f"a file of format {format!r} must end in {suffix}, got {path}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the name of a file")
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists already; choose another name or set overwrite=True")
    check_writable(path)


def _check_normalization(inputs: Inputs, mean: Sequence[float] | None, std: Sequence[float] | None) -> None:
    if (mean is None) != (std is None):
        raise ValueError("mean and std must be given together")
    if mean is None or std is None:
        return
    example = inputs.tensors[0]
    is_images = len(inputs.tensors) == 1 and inputs.keywords is None and example.ndim == 4
    if not is_images or not len(mean) == len(std) == example.shape[1]:
        raise ValueError(
            f"mean and std must have a value for each channel of images (N, channels, H, W), got {len(mean)} and "
            f"{len(std)} for an example of shape {tuple(example.shape)}"
        )
    if not all(math.isfinite(value) for value in mean) or not all(0 <= value < math.inf for value in std):
        raise ValueError(f"mean must be finite and std not negative, got mean {list(mean)} and std {list(std)}")
