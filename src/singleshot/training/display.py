"""Whoever wants to see a run go: a progress display, a test, a program of one's own."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from singleshot.metrics import CalibrationResult
from singleshot.training.schedule import Schedule
from singleshot.training.step import StepResult
from singleshot.training.training_state import Sums


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


PLAIN_SECONDS = 30  # between two plain lines
WINDOW = 50  # steps that speed and averages are taken over


class Pace:
    """The recent speed of a run, and the averages of its recent steps."""

    def __init__(self, schedule: Schedule, step: int) -> None:
        self.schedule = schedule
        self.step = step
        self._times: deque[float] = deque([time.monotonic()], maxlen=WINDOW + 1)
        self._results: deque[StepResult] = deque(maxlen=WINDOW)

    def add(self, step: int, result: StepResult) -> None:
        """One more step is done."""
        self.step = step
        self._times.append(time.monotonic())
        self._results.append(result)

    @property
    def seconds_per_step(self) -> float:
        """Over the recent steps."""
        return (self._times[-1] - self._times[0]) / max(1, len(self._times) - 1)

    def averages(self) -> str:
        """Loss, mean α and accuracy over the recent steps; nothing before the first."""
        if not self._results:
            return ""
        sums = Sums()
        for result in self._results:
            sums.add(result)
        return in_words(sums.means())

    def speed(self) -> str:
        """Images per second, and the time to the end of the run at this speed; nothing before the first step."""
        if not self._results:
            return ""
        speed = self.schedule.batch / max(self.seconds_per_step, 1e-9)
        seconds = round((self.schedule.steps - self.step) * self.seconds_per_step)
        hours, minutes = divmod(seconds // 60, 60)
        return f"{speed:,.0f} img/s  {hours}:{minutes:02d}:{seconds % 60:02d} left"

    def place(self) -> str:
        """Which epoch of how many."""
        epoch = min((self.step - 1) // self.schedule.steps_per_epoch + 1, self.schedule.recipe.epochs)
        return f"epoch {max(1, epoch)}/{self.schedule.recipe.epochs}"


class _LiveLines(Progress):
    """A bar, and the numbers on a line below it: beside it, a terminal of 80 columns would cut them off."""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        yield from (Text(task.fields["numbers"]) for task in self.tasks)


class Display(Watcher):
    """Progress on standard error, or on a console of one's own."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self._is_live = self.console.is_terminal and not self.console.is_dumb_terminal
        self._progress: Progress | None = None

    def started(self, schedule: Schedule, step: int) -> None:
        """Say where it begins; on a terminal, open the live lines."""
        self.pace = Pace(schedule, step)
        self._said = time.monotonic()
        self._unseen = ""
        if step > schedule.first_step:
            self._line(f"continuing after step {step} of {schedule.steps}")
        if self._is_live:
            columns = TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[speed]}")
            self._progress = _LiveLines(*columns, console=self.console)
            self._task: TaskID = self._progress.add_task(
                self.pace.place(), total=schedule.steps, completed=step, speed="", numbers=""
            )
            self._progress.start()

    def stepped(self, step: int, result: StepResult, learning_rate: float) -> None:
        """Renew the live lines, or now and then print a plain one."""
        self.pace.add(step, result)
        if self._progress is not None:
            self._progress.update(
                self._task,
                completed=step,
                description=self.pace.place(),
                speed=self.pace.speed(),
                numbers=_spaced(self.pace.averages(), self._unseen),
            )
        elif time.monotonic() - self._said >= PLAIN_SECONDS:
            numbers = _spaced(self.pace.averages(), self._unseen, self.pace.speed())
            self._line(f"{self.pace.place()}, step {step}: {numbers}")

    def evaluated(self, evaluation: Evaluation) -> None:
        """One lasting line per evaluation."""
        result = evaluation.result
        self._unseen = f"{evaluation.split} acc {result.accuracy:.3f} ECE {result.ece:.3f}"
        unseen = f"{self._unseen} NLL {result.nll:.3f}"
        mark = "best so far" if evaluation.is_best else ""
        place = f"epoch {evaluation.epoch}/{self.pace.schedule.recipe.epochs}"
        self._line(f"{place}: {_spaced(in_words(evaluation.means), unseen, self.pace.speed(), mark)}")

    def finished(self) -> None:
        """Close the live lines."""
        if self._progress is not None:
            self._progress.stop()

    def _line(self, text: str) -> None:
        self._said = time.monotonic()
        if self._is_live:
            self.console.print(text, highlight=False)
        else:
            print(text, file=self.console.file, flush=True)


def in_words(means: dict[str, float | None]) -> str:
    """Loss, mean α and accuracy on the training images."""
    alpha = f"  α {means['alpha']:.3f}" if means["alpha"] is not None else ""
    return f"loss {means['loss']:.3f}{alpha}  acc {means['train_accuracy']:.3f}"


def _spaced(*parts: str) -> str:
    return "  ".join(part for part in parts if part)
