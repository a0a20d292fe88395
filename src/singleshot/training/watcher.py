"""Whoever wants to see a run go: a progress display, a test, a program of one's own."""

from __future__ import annotations

from dataclasses import dataclass

from singleshot.metrics import CalibrationResult
from singleshot.training.schedule import Schedule
from singleshot.training.step import StepResult


@dataclass(frozen=True)
class Evaluation:
    """What unseen images said after an epoch."""

    epoch: int
    means: dict[str, float | None]  # loss, alpha and train_accuracy over the steps of the epoch
    split: str  # "validation", or "test" where no images are held out
    result: CalibrationResult
    is_best: bool


class Watcher:
    """Hears what happens in the process that writes; does nothing with it unless a subclass does."""

    def started(self, schedule: Schedule, step: int) -> None:
        """The loop begins at this step."""

    def stepped(self, step: int, result: StepResult, learning_rate: float) -> None:
        """A step is done; ``step`` counts it."""

    def evaluated(self, evaluation: Evaluation) -> None:
        """Unseen images were looked at."""

    def finished(self) -> None:
        """The loop has ended, however."""
