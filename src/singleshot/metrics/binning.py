"""Equal-width bins (lo, hi] of [0, 1]."""

from __future__ import annotations

import torch
from torch import Tensor


def bin_index(values: Tensor, bins: int) -> Tensor:
    """The bin of each value: 0 goes to the first, 1 to the last, and an edge to the bin below it.

    The edges are rounded to the dtype of the values, so that a float32 0.15 is on the edge 0.15 and not beyond it.

    >>> bin_index(torch.tensor([0.0, 0.15, 0.16, 1.0]), bins=20)
    tensor([ 0,  2,  3, 19])
    """
    edges = bin_edges(bins)[:-1].to(values)
    if bins * torch.finfo(values.dtype).eps > 1 / 4:  # edges so rounded could be bins apart
        return torch.bucketize(values, edges[1:])
    edges[0] = -1  # nothing lies below the first bin
    # Which edge is nearest is known without a search, and rounding cannot matter there: it is small against half a bin.
    nearest = (values * bins).round_().long().clamp_(0, bins - 1)
    return nearest - (values <= edges.take(nearest)).long()


def bin_edges(bins: int) -> Tensor:
    """The bins + 1 edges k / bins, in float64."""
    return torch.arange(bins + 1, dtype=torch.float64, device="cpu") / bins


def sum_by_bin(index: Tensor, bins: int, values: Tensor | None = None) -> Tensor:
    """How many examples each bin has (int64), or the float64 sum of their values."""
    if values is None:
        return torch.bincount(index, minlength=bins)
    # double() once more: of no values at all, bincount makes integers
    return torch.bincount(index, weights=values.double(), minlength=bins).double()


def bins_are_plausible(count: Tensor, correct: Tensor, total: Tensor) -> bool:
    """Whether bins with so many examples could have so many right ones and values in [0, 1] of this sum."""
    countable = count.double().sum() < 2**53
    return bool(countable and (correct <= count).all() and (total <= count * (1 + 1e-6) + 1e-6).all())
