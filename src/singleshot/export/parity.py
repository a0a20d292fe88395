"""Comparison of an exported program with its model."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from singleshot.common.errors import StoppedError
from singleshot.export.inputs import Inputs

TOLERANCE = 1e-5
BATCHES = (1, 7)  # a single row, and a size that was not used for tracing

Outputs = tuple[Tensor, Tensor]
"""Logits and probabilities."""
Program = Callable[[Inputs], Outputs]


class ParityError(StoppedError):
    """Raised when an exported program disagrees with its model."""


def check_parity(reference: Program, exported: Program, inputs: Inputs) -> float:
    """Return the largest difference between the two programs, or raise `ParityError` if it exceeds 1e-5.

    Inputs (N, ...) are taken in batches of several sizes. The difference is relative to the largest logit if that is
    above 1, since rounding errors of float32 grow with the logits: 2e-5 for a VGG-16 with logits of 12.
    """
    largest = 0.0
    for size in BATCHES:
        batch = inputs.first(size)
        with torch.no_grad():
            expected, found = reference(batch), exported(batch)
        scale = max(1.0, float(expected[0].abs().max()))
        for name, one, other in zip(("logits", "probabilities"), expected, found, strict=True):
            if one.shape != other.shape:
                raise ParityError(
                    f"the exported {name} have shape {tuple(other.shape)}, those of the model {tuple(one.shape)}; "
                    "no file was written"
                )
            difference = float((one.double() - other.double()).abs().max()) / scale
            if not difference <= TOLERANCE:  # also if it is NaN
                raise ParityError(
                    f"the exported program disagrees with the model: for a batch of {size} the {name} differ by "
                    f"{difference:.2g}, above the tolerance of {TOLERANCE:g}; no file was written"
                )
            largest = max(largest, difference)
    return largest
