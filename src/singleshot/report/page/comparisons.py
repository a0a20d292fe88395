"""Each classifier of a page against the first, where both are of the same examples."""

from __future__ import annotations

from typing import Any

from singleshot.metrics.comparison import Resampled, resampled_metrics
from singleshot.metrics.examples import Examples
from singleshot.predictions.comparing import COMPARED, differences, same_examples, why_not_compared
from singleshot.report.page.fine_bins import DEFAULT_BINS
from singleshot.report.page.subject import Subject

SHOWN = ("metric", "difference", "low", "high", "p_value")


class ComparisonsWithFirst:
    """Takes subjects one by one, and keeps the examples of the first alone, whose resamples are made once."""

    def __init__(self, replicates: int | None) -> None:
        self._replicates = 1000 if replicates is None else replicates
        self._first: tuple[str, Examples] | None = None
        self._first_resampled: Resampled | None = None
        self.found: list[dict[str, Any]] = []

    def add(self, subject: Subject, name: str) -> bool:
        """Compare a subject with the first; this may be the first. Returns whether both are of the same examples."""
        examples = subject.measured.evaluation.examples
        assert examples is not None
        if self._first is None:
            self._first = (name, examples)
            return True
        against, others = self._first
        is_same = same_examples(examples, others)
        if not self._replicates:
            return is_same
        entry: dict[str, Any] = {"of": name, "against": against, "why": None, "differences": []}
        why = why_not_compared(examples, others)
        if why is not None:
            self.found.append({**entry, "why": f"{name} and {against} {why}."})
            return is_same
        groups = subject.measured.groups
        if self._first_resampled is None:
            self._first_resampled = self._resampled(others, groups)
        compared = differences(self._resampled(examples, groups), self._first_resampled)
        plain = [{field: getattr(one, field) for field in SHOWN} for one in compared]
        self.found.append({**entry, "differences": plain})
        return is_same

    def _resampled(self, examples: Examples, groups: int | None) -> Resampled:
        return resampled_metrics(examples, COMPARED, replicates=self._replicates, bins=DEFAULT_BINS, groups=groups)
