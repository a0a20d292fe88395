"""Callbacks of a training run, and the progress display."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from singleshot.losses import AdaptiveGamma
from singleshot.metrics import CalibrationResult
from singleshot.self_tuning import SelfTunedStrength
from singleshot.training.checkpoint import EpochSums
from singleshot.training.schedule import Schedule
from singleshot.training.step import StepResult


@dataclass(frozen=True)
class EpochEvaluation:
    """The evaluation after an epoch."""

    epoch: int
    means: dict[str, float | None]  # loss, alpha and train_accuracy over the steps of the epoch
    split: str  # "validation", or "test" if no images are held out
    result: CalibrationResult
    is_best: bool


class Callback:
    """Methods that are called during training, in the main process. A subclass overrides what it needs."""

    def on_start(self, schedule: Schedule, step: int) -> None:
        """Training starts after this many steps."""

    def on_step(self, step: int, result: StepResult, learning_rate: float) -> None:
        """A step is done; ``step`` counts it."""

    def on_evaluation(self, evaluation: EpochEvaluation) -> None:
        """Held-out images were evaluated."""

    def on_strength(self, step: int, strength: SelfTunedStrength | AdaptiveGamma) -> None:
        """Held-out images have tuned the strength of the loss, after this many steps."""

    def on_end(self) -> None:
        """Training has ended, with or without an error."""


LINE_INTERVAL = 30  # seconds between two plain lines
WINDOW = 50  # steps over which speed and averages are computed


class _TwoLines(Progress):
    """A progress bar with the numbers on a line below it, as both do not fit into 80 columns."""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        yield from (Text(task.fields["numbers"]) for task in self.tasks)


class Display(Callback):
    """Progress on a console, by default standard error: live on a terminal, plain lines elsewhere."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self._is_live = self.console.is_terminal and not self.console.is_dumb_terminal
        self._progress: Progress | None = None

    def on_start(self, schedule: Schedule, step: int) -> None:
        """Print the step from which a run resumes; on a terminal, show the progress bar."""
        self._schedule = schedule
        self._last_line = time.monotonic()
        self._times = deque([self._last_line], maxlen=WINDOW + 1)
        self._results: deque[StepResult] = deque(maxlen=WINDOW)
        self._speed = self._evaluation = self._strength = ""
        if step == schedule.steps:
            self._print(f"nothing left to train: all {step} steps are done")
        elif step > schedule.first_step:
            self._print(f"resuming after step {step} of {schedule.steps}")
        if self._is_live:
            columns = TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[speed]}")
            self._progress = _TwoLines(*columns, console=self.console)
            self._task = self._progress.add_task(
                self._epoch_of(step), total=schedule.steps, completed=step, speed="", numbers=""
            )
            self._progress.start()

    def on_step(self, step: int, result: StepResult, learning_rate: float) -> None:
        """Update the progress bar, or print a plain line at intervals."""
        self._times.append(time.monotonic())
        self._results.append(result)
        seconds_per_step = (self._times[-1] - self._times[0]) / (len(self._times) - 1)
        images_per_second = self._schedule.batch / max(seconds_per_step, 1e-9)
        left = timedelta(seconds=round((self._schedule.steps - step) * seconds_per_step))
        self._speed = f"{images_per_second:,.0f} img/s  {left} left"
        sums = EpochSums()
        for recent in self._results:
            sums.add(recent)
        averages, epoch = _formatted(sums.means()), self._epoch_of(step)
        if self._progress is not None:
            numbers = _joined(averages, self._evaluation)
            self._progress.update(self._task, completed=step, description=epoch, speed=self._speed, numbers=numbers)
        elif time.monotonic() - self._last_line >= LINE_INTERVAL:
            self._print(f"{epoch}, step {step}: {_joined(averages, self._evaluation, self._speed)}")

    def on_evaluation(self, evaluation: EpochEvaluation) -> None:
        """Print one line per evaluation."""
        result = evaluation.result
        self._evaluation = f"{evaluation.split} acc {result.accuracy:.3f} ECE {result.ece:.3f}"
        numbers = f"{self._evaluation} NLL {result.nll:.3f}"
        best = "best so far" if evaluation.is_best else ""
        epoch = f"epoch {evaluation.epoch}/{self._schedule.recipe.epochs}"
        self._print(f"{epoch}: {_joined(_formatted(evaluation.means), self._strength, numbers, self._speed, best)}")

    def on_strength(self, step: int, strength: SelfTunedStrength | AdaptiveGamma) -> None:
        """Keep the strength for the lines of the evaluations; after the last update, print it and the temperature."""
        if isinstance(strength, AdaptiveGamma):
            self._strength = f"mean γ {float(strength):.3g}"
            return
        self._strength = f"strength {float(strength):.3g}"
        if step == self._schedule.give_back_step:
            self._print(tuning_summary(strength, given_back=step < self._schedule.steps))

    def on_end(self) -> None:
        """Stop the progress bar."""
        if self._progress is not None:
            self._progress.stop()

    def _epoch_of(self, step: int) -> str:
        epoch = max(1, math.ceil(step / self._schedule.steps_per_epoch))
        return f"epoch {epoch}/{self._schedule.recipe.epochs}"

    def _print(self, text: str) -> None:
        self._last_line = time.monotonic()
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


def tuning_summary(strength: SelfTunedStrength, *, given_back: bool) -> str:
    """Describe the outcome of tuning, with advice if the network is not calibrated on the held-out images."""
    after = "; from here on they are trained on as well" if given_back else ""
    outcome = f"strength tuned to {strength:.3g}"
    temperature = strength.temperature or 1.0
    if strength.is_calibrated:
        return f"{outcome}: the held-out images show no miscalibration, as far as they can tell{after}"
    if not 0.05 < temperature < 20:
        chance = "no better than chance, or always right; train longer, or hold out more"
        return f"{outcome}: on the held-out images the network is {chance}{after}"
    advice = "train longer" if given_back else f"train longer, or export with --temperature {temperature:.3g}"
    if temperature < 1:
        advice = f"the network is underconfident, perhaps also with cross-entropy alone; {advice}"
    return (
        f"{outcome}: the held-out images still need temperature {temperature:.3g}, which differs from 1 by more than "
        f"chance; {advice}{after}"
    )


def _formatted(means: dict[str, float | None]) -> str:
    alpha = f"  α {means['alpha']:.3f}" if means["alpha"] is not None else ""
    return f"loss {means['loss']:.3f}{alpha}  acc {means['train_accuracy']:.3f}"


def _joined(*parts: str) -> str:
    return "  ".join(part for part in parts if part)
