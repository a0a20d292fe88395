"""The cases of an attempt: how many were tried, and which failed."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random


@dataclass
class Tally:
    """Counts cases. The description of the current one is on disk, in case it ends the process."""

    random: Random
    folder: Path  # of this attempt, empty at first
    shared: Path  # of all attempts of the scenario
    tried: int = 0
    failures: list[str] = field(default_factory=list)

    @contextmanager
    def case(self, description: str) -> Iterator[None]:
        """Count a case; an exception in the block is a failure."""
        (self.folder / "case.txt").write_text(description, encoding="utf-8")
        self.tried += 1
        try:
            yield
        except Exception:
            self.failures.append(f"{description}\n{traceback.format_exc()}")


def refused_with(error: Exception, name: str) -> None:
    """Check that an error is one message for the user, which names the file."""
    assert isinstance(error, ValueError), f"{type(error).__name__}: {error}"
    assert name in str(error), f"the message does not name {name}: {error}"
    assert str(error).replace("\n", "").isprintable(), f"control characters in {str(error)!r}"
    assert len(str(error)) < 5000, f"a message of {len(str(error))} characters"
