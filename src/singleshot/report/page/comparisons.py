"""Each classifier of a page against the first, where both are of the same examples."""

from __future__ import annotations

from typing import Any

from singleshot.predictions.comparing import AgainstFirst, same_examples
from singleshot.report.page.fine_bins import DEFAULT_BINS
from singleshot.report.page.subject import Subject

SHOWN = ("metric", "difference", "low", "high", "p_value")


class ComparisonsWithFirst:
    """Takes subjects one by one, and keeps the examples of the first alone."""

    def __init__(self, replicates: int | None) -> None:
        self._replicates = replicates
        self._first: tuple[str, AgainstFirst] | None = None
        self.found: list[dict[str, Any]] = []

    def add(self, subject: Subject, name: str) -> bool:
        """Compare a subject with the first; this may be the first. Returns whether both are of the same examples."""
        examples = subject.measured.evaluation.examples
        assert examples is not None
        if self._first is None:
            self._first = (name, AgainstFirst(examples, replicates=self._replicates, bins=DEFAULT_BINS))
            return True
        against, first = self._first
        if self._replicates != 0:
            compared = first.compare(examples)
            entry: dict[str, Any] = {"of": name, "against": against, "why": None, "differences": []}
            if isinstance(compared, str):
                self.found.append({**entry, "why": f"{name} and {against} {compared}."})
            else:
                plain = [{field: getattr(one, field) for field in SHOWN} for one in compared]
                self.found.append({**entry, "differences": plain})
        assert first.first is not None
        return same_examples(examples, first.first)
