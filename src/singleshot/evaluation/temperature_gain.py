"""What one temperature would gain, judged on examples that it was not fitted on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from singleshot.common.text import jsonable
from singleshot.evaluation.evaluation import MIN_RESAMPLED, Evaluation, evaluate_batches
from singleshot.evaluation.verdict import verdict
from singleshot.metrics.examples import ScoredBatch
from singleshot.posthoc.temperature import NoFiniteTemperature, best_temperature

MAX_EXAMPLES, MAX_SCORES = 50_000, 2**22
"""Examples and scores kept for the estimate: it takes less than a second and 16 MB of float32 logits."""


class ScoreSample:
    """Every n-th example of a stream, with all its scores, where n doubles whenever there are too many scores.

    It stays empty if a batch has one score per example, because a temperature needs those of all classes.
    """

    def __init__(self, max_scores: int = MAX_SCORES) -> None:
        self.max_scores = max_scores
        self._step, self._seen = 1, 0
        self._logits: list[Tensor] = []
        self._labels: list[Tensor] = []

    def add(self, batch: ScoredBatch) -> None:
        """Add a batch of logits, or of probabilities, which become their logarithms."""
        if batch.scores.shape[1] < 2:
            return
        rows = slice(-self._seen % self._step, None, self._step)
        self._seen += len(batch)
        scores = batch.scores[rows].cpu().clone()  # a view would keep the whole batch in memory
        self._logits.append(scores if batch.kind == "logits" else _logarithms(scores))
        self._labels.append(batch.labels[rows].clone())
        limit = min(MAX_EXAMPLES, max(1, self.max_scores // batch.scores.shape[1]))
        while sum(map(len, self._labels)) > limit:
            self._step *= 2
            logits, labels = self.examples()
            self._logits, self._labels = [logits[::2].clone()], [labels[::2].clone()]

    def examples(self) -> tuple[Tensor, Tensor]:
        """Return the logits (n, C) and labels (n,) of the sample."""
        if self.is_empty:
            return torch.empty(0, 0), torch.empty(0, dtype=torch.int64)
        return torch.cat(self._logits), torch.cat(self._labels)

    @property
    def is_empty(self) -> bool:
        """Whether there are no examples."""
        return not self._labels


@dataclass(frozen=True)
class TemperatureGain:
    """Metrics before and after one temperature."""

    temperature: float
    count: int  # examples that were judged
    how: str  # which examples the temperature was fitted on
    ece: tuple[float, float]
    nll: tuple[float, float]
    badge: str  # of the verdict after it
    fixed: float  # share of the calibration error that is gone, negative if it has grown

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return dict(jsonable(vars(self)))


def cross_fitted_gain(logits: Tensor, labels: Tensor, *, bins: int = 20) -> TemperatureGain | None:
    """Rescale each half of the examples by the temperature of the other half; None if there is no temperature.

    No example is judged with a temperature that it was fitted on, so the gain is what to expect from a temperature that
    is fitted on half as many held-out examples.
    """
    if len(labels) < 2 * MIN_RESAMPLED:
        return None
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    halves = order[::2], order[1::2]
    whole, first, second = (_temperature(logits[some], labels[some]) for some in (order, *halves))
    if whole is None or first is None or second is None:
        return None
    divisors = torch.empty(len(labels), 1, dtype=torch.float64)
    divisors[halves[0]], divisors[halves[1]] = second, first
    how = "each half of these examples is rescaled by the temperature of the other half"
    return _gain(logits, logits.double() / divisors, labels, temperature=whole, how=how, bins=bins)


def held_out_gain(
    held_out: tuple[Tensor, Tensor], logits: Tensor, labels: Tensor, *, what: str, bins: int = 20
) -> TemperatureGain | None:
    """Rescale the examples by the temperature of held-out ones; None if there is no temperature."""
    temperature = _temperature(*held_out)
    if temperature is None or min(len(labels), len(held_out[1])) < MIN_RESAMPLED:
        return None
    how = f"fitted on {what} and judged on these examples"
    return _gain(logits, logits.double() / temperature, labels, temperature=temperature, how=how, bins=bins)


def _temperature(logits: Tensor, labels: Tensor) -> float | None:
    if not logits.isfinite().all():
        return None
    found = best_temperature(logits, labels)
    return None if isinstance(found, NoFiniteTemperature) else found


def _gain(
    logits: Tensor, scaled: Tensor, labels: Tensor, *, temperature: float, how: str, bins: int
) -> TemperatureGain:
    def evaluated(scores: Tensor) -> Evaluation:
        return evaluate_batches([{"logits": scores, "labels": labels}], bins=bins, replicates=0, keep_examples=True)

    before, after = evaluated(logits), evaluated(scaled)
    errors = [one.example_metrics["debiased_ece"] for one in (before, after)]
    return TemperatureGain(
        temperature=temperature,
        count=len(labels),
        how=how,
        ece=(before.result.ece, after.result.ece),
        nll=(before.result.nll, after.result.nll),
        badge=verdict(after).badge,
        fixed=1 - errors[1] / errors[0] if errors[0] > 0 else 0.0,
    )


def _logarithms(probs: Tensor) -> Tensor:
    """Logarithms of probabilities, with at least the smallest normal float32, like those of `calibrate`."""
    wide = probs.float() if probs.dtype in {torch.float16, torch.bfloat16} else probs
    return wide.clamp_min(torch.finfo(torch.float32).tiny).log()
