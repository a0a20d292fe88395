"""Batches of the user's own data loader: inputs of any model, and labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from singleshot.common.layout import by_example
from singleshot.common.progress import tracked
from singleshot.sampling.arguments import Extract
from singleshot.sampling.sampler import find_logits
from singleshot.training.inference import evaluation_mode

LABELS = ("labels", "label")
"""Names of the labels in a batch that is a dict."""


class Batch(NamedTuple):
    """Inputs of a model, by position and by name, and their labels."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    labels: Tensor


def read_batch(batch: Any, device: torch.device) -> Batch:
    """Split a batch into inputs and labels, on the device.

    A tuple or list ends with the labels: (inputs, labels). A dict holds them under ``labels`` or ``label``, and the
    rest are inputs by name. Inputs that are a dict, a tuple or a list are several inputs.

    >>> batch = read_batch(({"ids": torch.zeros(2, 3)}, torch.tensor([0, 1])), torch.device("cpu"))
    >>> batch.args, list(batch.kwargs), batch.labels
    ((), ['ids'], tensor([0, 1]))
    """
    if isinstance(batch, Mapping):
        found = [name for name in LABELS if name in batch]
        if not found:
            raise ValueError(f"a batch that is a dict must have {' or '.join(LABELS)}, got {', '.join(batch)}")
        inputs: Any = {name: value for name, value in batch.items() if name != found[0]}
        labels = batch[found[0]]
    elif isinstance(batch, tuple | list) and len(batch) >= 2:
        *given, labels = batch
        inputs = given[0] if len(given) == 1 else given
    else:
        raise TypeError(f"a batch must be (inputs, labels) or a dict with labels, got {type(batch).__name__}")
    if not isinstance(labels, Tensor):
        raise TypeError(f"the labels of a batch must be a tensor, got {type(labels).__name__}")
    inputs, labels = tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, Tensor) else leaf, (inputs, labels))
    if isinstance(inputs, Mapping):
        return Batch((), dict(inputs), labels)
    return Batch(tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,), {}, labels)


def loader_scores(
    model: nn.Module, loader: Iterable[Any], *, logits: Extract | None = None, title: str | None = "Evaluation"
) -> tuple[Tensor, Tensor]:
    """Return the outputs (N, C) of one forward pass in evaluation mode and the labels (N,), on the CPU.

    Dense outputs (B, C, ...) give a row for each position.

    ``logits`` finds the logits in the output of the model, as in `singleshot.sample`. The ``title`` is that of a
    progress bar; None shows none.
    """
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    if logits is not None and not callable(logits):
        raise TypeError(f"logits must be a function of the model's output, got {type(logits).__name__}")
    scores: list[Tensor] = []
    labels: list[Tensor] = []
    with evaluation_mode(model):
        for given in loader if title is None else tracked(loader, title):
            batch = read_batch(given, device)
            found = (logits or find_logits)(model(*batch.args, **batch.kwargs)).cpu()
            for parts, part in zip((scores, labels), _rows(found, batch.labels.cpu()), strict=True):
                parts.append(part)
    if not labels:
        raise ValueError("the loader has no batches")
    return torch.cat(scores), torch.cat(labels)


def _rows(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return one row per position of dense scores (B, C, ...): batches may differ in their number of positions."""
    if not scores.ndim == labels.ndim + 1 > 2:
        return scores, labels
    by_example(scores, labels)  # an error if they do not fit
    return scores.movedim(1, -1).flatten(0, -2), labels.flatten()
