"""Held-out examples and numbers of a group of processes, gathered so that all of them compute the same."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from singleshot.common.checks import as_tensor
from singleshot.common.layout import fitting_set


def is_distributed() -> bool:
    """Return whether this is one of several processes."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def examples_of_all_processes(logits: Any, labels: Any) -> tuple[Tensor, Tensor]:
    """Check the examples of this process and return those of all, in the order of the ranks, on the CPU.

    One logit becomes two classes. A process may have no examples. Invalid ones in any process raise the same error in
    every process.
    """
    if not is_distributed():
        logits, labels = fitting_set(logits, labels, one_logit=True)
        return logits.cpu(), labels.cpu()
    found: tuple[Tensor, Tensor] | TypeError | ValueError
    try:
        logits, labels = as_tensor(logits, "logits"), as_tensor(labels, "labels")
        if logits.numel() or labels.numel():
            logits, labels = fitting_set(logits, labels, one_logit=True)
        found = logits.cpu(), labels.cpu()
    except TypeError as error:
        found = TypeError(str(error))
    except ValueError as error:
        found = ValueError(str(error))
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, found)
    for rank, part in enumerate(parts):
        if isinstance(part, Exception):
            raise type(part)(f"process {rank}: {part}")
    parts = [part for part in parts if len(part[1])] or parts[:1]
    classes = {part[0].shape[-1] for part in parts}
    if len(classes) > 1:
        raise ValueError(f"logits must have the same classes in all processes, got {sorted(classes)}")
    return fitting_set(torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts]))


def of_main_process(values: Tensor) -> Tensor:
    """Return the values of rank 0: processors may round differently."""
    if not is_distributed():
        return values
    shared = values.to("cuda" if dist.get_backend() == "nccl" else "cpu", copy=True)
    dist.broadcast(shared, src=0)
    return shared.cpu()
