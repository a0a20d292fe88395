"""Every probability of every class in its bin, summed: what the classwise ECE is made of."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from singleshot.common.checks import check_size
from singleshot.metrics.binning import bin_edges, bin_index, sum_by_bin
from singleshot.metrics.ece_estimators import BinSums, Gaps, debiased_error, plain_error
from singleshot.metrics.intervals import Interval, error_interval
from singleshot.metrics.rows import ScoredBatch
from singleshot.metrics.wilson import check_level


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


Array = NDArray[np.float64]

MOST_GROUPS, FEWEST_GROUPS = 100, 20
GROUP_BYTES = 40_000_000
"""What the sums of all groups may take, and resampling once or twice more; where cells are many, groups are few."""
MOST_CELLS = 2**22
FEWEST_PER_CLASS = 200
"""Examples per class, on average, from which on the interval was found to keep its word."""
BLOCK_CELLS = 2**19
"""Cells of resamples that are worked on at a time: a dozen arrays of 4 MB."""


class ClasswiseGroups:
    """Collects the classwise sums of up to 100 groups batch by batch; each example is put into a random one.

    Random, because files are often sorted: taken by turns, each group would have the same share of every class, and be
    more like the others than chance makes it.

    >>> groups = ClasswiseGroups(bins=10)
    >>> groups.update(probs=torch.tensor([[0.9, 0.1], [0.3, 0.7]]).repeat(50, 1), labels=torch.tensor([0, 0] * 50))
    >>> found = groups.interval(replicates=100)
    >>> round(found.estimate, 6), found.low <= 0.4 <= found.high
    (0.4, True)
    """

    def __init__(self, bins: int = 20) -> None:
        self.bins = check_size("bins", bins, least=1)
        self._cells: ClassCells | None = None
        self._generator = torch.Generator("cpu").manual_seed(0)  # of its own: the same groups whatever the batches

    def update(
        self,
        *,
        logits: Any = None,
        probs: Any = None,
        labels: Any,
    ) -> None:
        """Add scores (N, C), given as logits or as probabilities, and labels (N,). An invalid batch adds nothing."""
        self.add(ScoredBatch.of(logits=logits, probs=probs, labels=labels))

    def add(self, batch: ScoredBatch) -> None:
        """Add a batch that is validated and reduced already."""
        classes = batch.scores.shape[1]
        if self._cells is None:
            self._cells = ClassCells.empty(number_of_groups(classes, self.bins), classes, self.bins)
        groups, before, _ = self._cells.size.shape
        if classes != before:
            raise ValueError(f"logits or probs must have {before} classes, as those before them, got {classes}")
        for chunk in batch.chunks():
            group = torch.randint(groups, (len(chunk),), generator=self._generator, device="cpu")
            self._cells.add(chunk.probs(), chunk.labels, group)

    def interval(self, *, replicates: int = 1000, level: float = 0.95, seed: int = 0) -> Interval:
        """The classwise ECE and its interval, made as `bootstrap` makes those of the other calibration errors.

        Simulated with 2,000 examples of ten classes (benchmarks/interval_coverage.py), 95 % intervals hold the truth in
        95–96 % of data sets where the classifier is calibrated, overconfident, or wrong about some classes, and in 92 %
        where it is slightly overconfident: noise then passes for true gaps, and the lower ends are too high. With fewer
        examples per class they are worse: of ten classes, 500 examples gave some 80 %, 100 some 50 %. So `evaluate`
        gives one from `FEWEST_PER_CLASS` on.
        """
        check_size("replicates", replicates, least=2)
        check_level(level)
        if self._cells is None:
            raise ValueError("there are no examples yet: update the ClasswiseGroups with at least one batch")
        filled = self._cells.size.sum((1, 2)) > 0
        groups = BinSums(*(values.transpose(1, 2)[filled].double().numpy() for values in self._cells))
        own = BinSums(*(values.sum(0) for values in groups))
        generator = np.random.default_rng(seed)
        blocks = _block_sizes(replicates, own.size.size)
        values = np.concatenate([debiased_classwise(_resampled(groups, size, generator)) for size in blocks])
        calibrated = np.concatenate([plain_classwise(_if_calibrated(own, size, generator)) for size in blocks])
        estimate = float(plain_classwise(own))
        low, high = error_interval(
            estimate, float(debiased_classwise(own)), values, _widened(calibrated, own.size.shape[1]), level
        )
        return Interval(estimate, low, high, float(values.std(ddof=1)))


def number_of_groups(classes: int, bins: int) -> int:
    """As many as fit into the memory set aside for them, of three sums of 8 bytes per cell."""
    if classes * bins > MOST_CELLS:
        raise ValueError(
            f"bins must be at most {MOST_CELLS // classes} for the classwise ECE of {classes} classes, got {bins}"
        )
    return int(np.clip(GROUP_BYTES // (24 * classes * bins), FEWEST_GROUPS, MOST_GROUPS))


def plain_classwise(sums: BinSums) -> Array:
    """The mean over classes of their ECE, from sums (..., bins, classes)."""
    shares, gaps = _gaps_by_bin(sums)
    return np.asarray((shares * plain_error(gaps)).sum(-1))


def debiased_classwise(sums: BinSums) -> Array:
    """The same less what chance is expected to add, as `debiased_error` has it; it may be below 0.

    What gaps are to be expected in a cell is said by the other classes' cells of the same bin. The other bins of its
    class would not do: nearly all examples are in the first one, where probabilities and gaps are small.
    """
    shares, gaps = _gaps_by_bin(sums)
    return np.asarray((shares * debiased_error(gaps)).sum(-1))


def _gaps_by_bin(sums: BinSums) -> tuple[Array, Gaps]:
    """Each bin's share of all probabilities (..., bins), and the gaps of its cells (..., bins, classes).

    A cell often has a handful of examples, too few to tell the variance of its gap by their own accuracy: that is
    taken to be its mean probability less the gap of the whole bin.
    """
    size, correct, probability = sums
    filled, in_bin = np.maximum(size, 1), size.sum(-1, keepdims=True)
    bin_gap = (probability - correct).sum(-1, keepdims=True) / np.maximum(in_bin, 1)
    accuracy = np.clip(probability / filled - bin_gap, 0, 1)
    variance = np.where(size > 0, accuracy * (1 - accuracy) / filled, 0)
    gaps = Gaps(size / np.maximum(in_bin, 1), (probability - correct) / filled, variance)
    return in_bin[..., 0] / in_bin.sum(-2), gaps


def _resampled(groups: BinSums, replicates: int, generator: np.random.Generator) -> BinSums:
    """The sums of so many resamples: of G groups, G are drawn with replacement."""
    count = len(groups.size)
    drawn = generator.multinomial(count, np.full(count, 1 / count), size=replicates).astype(np.float64)
    return BinSums(*((drawn @ values.reshape(count, -1)).reshape(-1, *values.shape[1:]) for values in groups))


def _if_calibrated(sums: BinSums, worlds: int, generator: np.random.Generator) -> BinSums:
    """The sums in imagined worlds where a cell's examples are of its class as often as its mean probability says."""
    chance = np.clip(sums.confidence / np.maximum(sums.size, 1), 0, 1)
    shape = (worlds, *sums.size.shape)
    correct = generator.binomial(sums.size.astype(np.int64), chance, size=shape).astype(np.float64)
    return BinSums(np.broadcast_to(sums.size, shape), correct, np.broadcast_to(sums.confidence, shape))


def _widened(values: Array, classes: int) -> Array:
    """Errors of imagined worlds, spread as if their classes were not drawn apart.

    A label that is of one class is not of the others: what C classes have in noise is that of C − 1 free ones. With
    two of them, the error of the one is that of the other.
    """
    mean = values.mean()
    return np.asarray(mean + (values - mean) * np.sqrt(classes / max(classes - 1, 1)))


def _block_sizes(replicates: int, cells: int) -> list[int]:
    """The replicates, in blocks that are worked on at a time."""
    block = max(1, BLOCK_CELLS // cells)
    return [min(block, replicates - first) for first in range(0, replicates, block)]
