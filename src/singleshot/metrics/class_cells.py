"""Every probability of every class in its bin, summed: what the classwise ECE is made of."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from singleshot.metrics.binning import bin_edges, bin_index, sum_by_bin


class ClassCells(NamedTuple):
    """Sums of the examples in each cell, of shape (groups, classes, bins), that batches are added to in place.

    >>> cells = ClassCells.empty(groups=1, classes=2, bins=2)
    >>> cells.add(torch.tensor([[0.9, 0.1], [0.3, 0.7]]), torch.tensor([0, 0]))
    >>> cells.size.tolist(), cells.correct.tolist()
    ([[[1, 1], [1, 1]]], [[[1, 1], [0, 0]]])
    """

    size: Tensor  # how many examples
    correct: Tensor  # how many of them have this class as their label
    probability: Tensor  # the sum of this class's probability, in float64

    @classmethod
    def empty(cls, groups: int, classes: int, bins: int) -> ClassCells:
        """Cells without examples."""
        dtypes = (torch.int64, torch.int64, torch.float64)
        return cls(*(torch.zeros(groups, classes, bins, dtype=dtype, device="cpu") for dtype in dtypes))

    def add(self, probs: Tensor, labels: Tensor, group: Tensor | None = None) -> None:
        """Add probabilities (N, C) and labels (N,) on the CPU, each to its group (N,), by default to the first.

        Only the probabilities above the first bin are sorted. A row sums to 1, so fewer than ``bins`` of its
        probabilities lie above 1 / bins: the first bin, which has nearly all of them, gets what the others leave of the
        totals.
        """
        groups, classes, bins = self.size.shape
        first_column = torch.zeros_like(labels) if group is None else group * classes  # of an example's group
        flat = probs.flatten()
        above = (flat > bin_edges(bins)[1].to(probs)).nonzero().squeeze(1)
        high = flat[above]
        column = first_column[above.div(classes, rounding_mode="floor")] + above % classes
        cell = column * bins + bin_index(high, bins)
        self.size.view(-1).index_add_(0, cell, torch.ones_like(cell))
        self.probability.view(-1).index_add_(0, cell, high.double())
        examples, total = _totals(probs, group, groups)
        columns = (groups, classes)
        self.size[..., 0] += examples.unsqueeze(1) - sum_by_bin(column, groups * classes).view(columns)
        self.probability[..., 0] += (total - sum_by_bin(column, groups * classes, high).view(columns)).clamp(min=0)
        label_probs = probs.gather(1, labels.unsqueeze(1)).squeeze(1)
        label_cell = (first_column + labels) * bins + bin_index(label_probs, bins)
        self.correct.view(-1).index_add_(0, label_cell, torch.ones_like(label_cell))


def _totals(probs: Tensor, group: Tensor | None, groups: int) -> tuple[Tensor, Tensor]:
    """Each group's number of examples (groups,), and its sum of each class's probabilities (groups, C)."""
    if group is None:
        return torch.tensor([len(probs)], device="cpu"), probs.sum(0, dtype=torch.float64).unsqueeze(0)
    sums = torch.zeros(groups, probs.shape[1], dtype=torch.float64, device="cpu")
    return sum_by_bin(group, groups), sums.index_add_(0, group, probs.double())
