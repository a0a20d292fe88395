"""The calibration state as a torchmetrics ``Metric``: in collections, in Lightning and across processes."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor
from torchmetrics import Metric

from singleshot.common.checks import check_choice
from singleshot.metrics import Calibration, CalibrationResult


class CalibrationMetric(Metric):
    """Accuracy, ECE, NLL, Brier score and the other metrics of `singleshot.Calibration`, by name.

    The state is a few sums per bin, whatever the number of examples.

    Args:
        kind: what the predictions are, ``logits`` or ``probs``.
        bins: number of equal-width bins of the confidence.
        ignore_index: label of the examples to leave out, such as -100; by default none is.
        **kwargs: of ``torchmetrics.Metric``.

    >>> metric = CalibrationMetric(kind="probs")
    >>> metric.update(torch.tensor([[0.9, 0.1], [0.3, 0.7]]), torch.tensor([0, 0]))
    >>> round(float(metric.compute()["ece"]), 4)
    0.4
    """

    is_differentiable = False
    higher_is_better = None
    full_state_update = False

    def __init__(
        self,
        *,
        kind: Literal["logits", "probs"] = "logits",
        bins: int = 20,
        ignore_index: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_choice("kind", kind, ("logits", "probs"))
        self.kind = kind
        self.bins = bins
        self.ignore_index = ignore_index
        for name, total in Calibration(bins)._sums.items():
            self.add_state(name, default=total, dist_reduce_fx="sum")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add scores (N, C) and labels (N,), or those of every position: (N, C, ...) and (N, ...)."""
        added = Calibration(self.bins)
        added.update(**{self.kind: preds}, labels=target, ignore_index=self.ignore_index)
        for name, total in added._sums.items():
            before: Tensor = getattr(self, name)
            setattr(self, name, before + total.to(before.device))

    def result(self) -> CalibrationResult:
        """Return the result with its bins, for `singleshot.plot_reliability`."""
        state = Calibration(self.bins)
        state._sums = {name: getattr(self, name).cpu() for name in state._sums}
        return state.compute()

    def compute(self) -> dict[str, Tensor]:
        """Return every metric by name."""
        return {name: torch.tensor(value) for name, value in self.result().metrics().items()}
