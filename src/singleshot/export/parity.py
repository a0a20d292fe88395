"""Whether a program on disk says what the model says."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from singleshot.common.errors import StoppedError

TOLERANCE = 1e-5
BATCHES = (1, 7)  # one alone, and one that no example had

Outputs = tuple[Tensor, Tensor]
"""Logits and probabilities."""


class ParityError(StoppedError):
    """An exported program that disagrees with its model."""


def check_parity(
    reference: Callable[[Tensor], Outputs], exported: Callable[[Tensor], Outputs], inputs: Tensor
) -> float:
    """The largest difference between the two, relative to the largest logit where that is above 1, or an error.

    Inputs (N, ...) are taken in batches of several sizes. Two float32 programs cannot agree on logits better than each
    agrees with the same weights in float64: for a VGG-16 that is 2e-5 where logits reach 12, and no setting of
    onnxruntime changes it. So the difference counts relative to the logits, which it grows with.
    """
    largest = 0.0
    for size in BATCHES:
        batch = inputs[:size]
        with torch.no_grad():
            wanted, found = reference(batch), exported(batch)
        scale = max(1.0, float(wanted[0].abs().max()))
        for name, one, other in zip(("logits", "probabilities"), wanted, found, strict=True):
            if one.shape != other.shape:
                raise ParityError(
                    f"the exported {name} have shape {tuple(other.shape)}, those of the model {tuple(one.shape)}; "
                    "nothing was written"
                )
            difference = float((one.double() - other.double()).abs().max()) / scale
            if not difference <= TOLERANCE:  # NaN is not either
                raise ParityError(
                    f"the exported program does not agree with the model: with a batch of {size} its {name} differ by "
                    f"{difference:.2g}, where {TOLERANCE:g} is allowed; nothing was written"
                )
            largest = max(largest, difference)
    return largest


def probes(example: Tensor, *, pixels: bool, count: int = max(BATCHES)) -> Tensor:
    """Inputs like the example to compare programs on: random pixels, or the example's rows, shaken if they are floats.

    Token ids and the like have values that no other tensor may have, so they are only repeated.
    """
    generator = torch.Generator().manual_seed(0)
    shape = (count, *example.shape[1:])
    if pixels or example.dtype == torch.uint8:
        return torch.randint(0, 256, shape, generator=generator).to(example.dtype)
    rows = example[torch.arange(count) % len(example)]
    return rows + torch.randn(shape, generator=generator).to(rows) if rows.is_floating_point() else rows
