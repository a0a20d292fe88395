"""The global batch of a group of processes, for losses whose value depends on the whole batch."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from singleshot.common.layout import has_passes
from singleshot.common.processes import is_distributed


def gather_batch(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logits and labels of all processes, in the order of the ranks; in a single process, the given ones.

    With the result, any loss has the value of the global batch in every process, and under DistributedDataParallel,
    which averages gradients, also its gradient. Every process must call this. Batches may differ in size
    and be empty.

    >>> logits, labels = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    >>> gather_batch(logits, labels)[0] is logits
    True
    """
    if not is_distributed():
        return logits, labels
    batch = int(has_passes(logits, labels))
    parts, own = _gathered(logits.detach(), batch), dist.get_rank()
    # The factor turns the mean over the processes into the sum of their parts of the gradient.
    parts[own] = parts[own] + dist.get_world_size() * (logits - logits.detach())
    return torch.cat(parts, dim=batch), torch.cat(_gathered(labels, 0))


def _gathered(tensor: Tensor, dim: int) -> list[Tensor]:
    size = torch.tensor([tensor.shape[dim]], device=tensor.device)
    sizes = [torch.empty_like(size) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, size)
    largest = max(int(one) for one in sizes)
    padding = tensor.new_zeros(*tensor.shape[:dim], largest - int(size), *tensor.shape[dim + 1 :])
    mine = torch.cat([tensor, padding], dim).contiguous()
    parts = [torch.empty_like(mine) for _ in sizes]
    dist.all_gather(parts, mine)
    return [part.narrow(dim, 0, int(one)) for part, one in zip(parts, sizes, strict=True)]
