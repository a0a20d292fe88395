"""What a post-hoc calibration would gain, judged on examples that it was not fitted on."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from singleshot.common.text import jsonable
from singleshot.evaluation.evaluation import MIN_RESAMPLED, Evaluation, evaluate_batches
from singleshot.evaluation.verdict import verdict
from singleshot.metrics.examples import ScoredBatch
from singleshot.posthoc import SCALINGS, Scaling, TemperatureScaling
from singleshot.predictions.names import Kind
from singleshot.predictions.validation import fitted_logits

MAX_EXAMPLES, MAX_SCORES = 50_000, 2**22
"""Examples and scores kept for the estimate: with a temperature, it takes less than a second and 16 MB of logits."""
MAX_FITTED = 2**19
"""Scores that a vector scaling is fitted to: a few seconds."""
METHODS = ("temperature", "vector", "isotonic", "histogram")
SOME, MORE = 0.2, 0.1
"""Share of the calibration error that a method must fix to be worth it, and more than a temperature to replace one."""


class ScoreSample:
    """Every n-th example of a stream, with all its scores, where n doubles whenever there are too many scores.

    It stays empty if a batch has one score per example, because a temperature needs those of all classes.
    """

    def __init__(self, max_scores: int = MAX_SCORES) -> None:
        self.max_scores = max_scores
        self._step, self._seen = 1, 0
        self._kind: Kind = "logits"
        self._scores: list[Tensor] = []
        self._labels: list[Tensor] = []

    def add(self, batch: ScoredBatch) -> None:
        """Add a batch of logits, or of probabilities; all batches are of one kind."""
        if batch.scores.shape[1] < 2:
            return
        rows = slice(-self._seen % self._step, None, self._step)
        self._seen += len(batch)
        self._kind = batch.kind
        self._scores.append(batch.scores[rows].cpu().clone())  # a view would keep the whole batch in memory
        self._labels.append(batch.labels[rows].clone())
        limit = min(MAX_EXAMPLES, max(1, self.max_scores // batch.scores.shape[1]))
        while sum(map(len, self._labels)) > limit:
            self._step *= 2
            for parts in (self._scores, self._labels):
                parts[:] = [torch.cat(parts)[::2].clone()]

    def examples(self) -> tuple[Tensor, Tensor]:
        """Return the logits (n, C) and labels (n,) of the sample; logits of probabilities are those of `calibrate`."""
        if self.is_empty:
            return torch.empty(0, 0), torch.empty(0, dtype=torch.int64)
        scores = torch.cat(self._scores)
        values = (scores.float() if scores.dtype.itemsize == 2 else scores).numpy()
        return torch.from_numpy(fitted_logits(values, self._kind)), torch.cat(self._labels)

    @property
    def is_empty(self) -> bool:
        """Whether there are no examples."""
        return not self._labels


@dataclass(frozen=True)
class Gain:
    """Metrics before and after a calibration."""

    method: str
    temperature: float | None  # of all examples, if that is the method
    count: int  # examples that were judged
    how: str  # which examples the method was fitted on
    ece: tuple[float, float]
    nll: tuple[float, float]
    badge: str  # of the verdict after it
    fixed: float  # share of the calibration error that is gone, negative if it has grown

    @property
    def helps(self) -> bool:
        """Whether it fixes some of the calibration error, and makes neither ECE nor NLL worse."""
        return self.fixed >= SOME and self.ece[1] < self.ece[0] and self.nll[1] < self.nll[0]

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return dict(jsonable(vars(self)))


def cross_fitted_gain(logits: Tensor, labels: Tensor, *, bins: int = 20) -> Gain | None:
    """Calibrate each half of the examples by the fit of the other half.

    No example is judged with a calibration that it was fitted on, so the gain is what to expect from one that is fitted
    on half as many held-out examples. It is that of the best of `METHODS`. None if there are too few examples.
    """
    if len(labels) < 2 * MIN_RESAMPLED or not logits.isfinite().all():
        return None
    logits, labels = _shuffled(logits, labels)

    def gain_of(method: str) -> Gain | None:
        first, second = (_fit(method, logits[start::2], labels[start::2]) for start in (0, 1))
        if first is None or second is None:
            return None
        scaled = torch.empty_like(logits, dtype=torch.float64)
        scaled[0::2], scaled[1::2] = second(logits[0::2].double()), first(logits[1::2].double())
        how = "each half of these examples is calibrated by the fit of the other half"
        whole = _fit(method, logits, labels) if method == "temperature" else None
        return _gain(logits, scaled, labels, method=method, scaling=whole, how=how, bins=bins)

    return _best(gain_of)


def held_out_gain(
    held_out: tuple[Tensor, Tensor], logits: Tensor, labels: Tensor, *, what: str, bins: int = 20
) -> Gain | None:
    """Calibrate the examples by the fit of held-out ones, with the methods of `cross_fitted_gain`."""
    if min(len(labels), len(held_out[1])) < MIN_RESAMPLED or not held_out[0].isfinite().all():
        return None
    held_out = _shuffled(*held_out)
    how = f"fitted on {what} and judged on these examples"

    def gain_of(method: str) -> Gain | None:
        scaling = _fit(method, *held_out)
        if scaling is None:
            return None
        return _gain(logits, scaling(logits.double()), labels, method=method, scaling=scaling, how=how, bins=bins)

    return _best(gain_of)


def _shuffled(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Shuffle the examples, which may be stored by class."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    return logits[order], labels[order]


def _best(gain_of: Callable[[str], Gain | None]) -> Gain | None:
    """Return the gain of the method that fixes most; if none helps, that of the first that could be fitted."""
    first = gain_of("temperature")
    if first is not None and first.helps and first.fixed > 1 - MORE:
        return first  # no other can fix enough more
    found = [gain for gain in (first, *map(gain_of, METHODS[1:])) if gain is not None]
    best = max((gain for gain in found if gain.helps), key=lambda gain: gain.fixed, default=None)
    if best is None:
        return found[0] if found else None
    return first if first is not None and first.helps and best.fixed < first.fixed + MORE else best


def _fit(method: str, logits: Tensor, labels: Tensor) -> Scaling | None:
    """Fit a method to shuffled examples, some of them if it is slow; None if there is no finite temperature."""
    size = max(MIN_RESAMPLED, MAX_FITTED // logits.shape[1]) if method == "vector" else len(labels)
    with warnings.catch_warnings():
        # A temperature that is not finite, and classes without examples: the gain shows whether these matter.
        warnings.simplefilter("ignore", UserWarning)
        try:
            return SCALINGS[method].fit(logits[:size], labels[:size])
        except ValueError:
            return None


def _gain(
    logits: Tensor, scaled: Tensor, labels: Tensor, *, method: str, scaling: Scaling | None, how: str, bins: int
) -> Gain:
    def evaluated(scores: Tensor) -> Evaluation:
        return evaluate_batches([{"logits": scores, "labels": labels}], bins=bins, replicates=0, keep_examples=True)

    before, after = evaluated(logits), evaluated(scaled)
    errors = [one.example_metrics["debiased_ece"] for one in (before, after)]
    return Gain(
        method=method,
        temperature=scaling.temperature if isinstance(scaling, TemperatureScaling) else None,
        count=len(labels),
        how=how,
        ece=(before.result.ece, after.result.ece),
        nll=(before.result.nll, after.result.nll),
        badge=verdict(after).badge,
        fixed=1 - errors[1] / errors[0] if errors[0] > 0 else 0.0,
    )
