"""The loop over steps and epochs: what is done when, and what is saved when."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from singleshot.common.errors import StoppedError
from singleshot.data import Dataset
from singleshot.metrics import Calibration
from singleshot.training.display import Evaluation, Watcher
from singleshot.training.inference import evaluate
from singleshot.training.interrupts import Interrupts
from singleshot.training.metrics_log import MetricsLog
from singleshot.training.processes import ProcessLostError
from singleshot.training.run import Run
from singleshot.training.schedule import Schedule, TrainingBatches, derived_seed
from singleshot.training.step import PLAIN, DivergedError, Stepper, objective_of
from singleshot.training.training_state import RunState, Sums

LOGGED_EVERY = 50  # steps


class Loop:
    """A run under way."""

    def __init__(
        self,
        run: Run,
        dataset: Dataset,
        positions: tuple[Tensor, Tensor],
        stepper: Stepper,
        progress: RunState,
        *,
        log: MetricsLog | None,
        watcher: Watcher,
        checkpoint_seconds: float,
        already_saved: bool,
    ) -> None:
        training, validation = positions
        self.run, self.stepper, self.progress, self.log = run, stepper, progress, log
        self.processes = stepper.processes
        self.watcher = watcher if self.processes.is_writer else Watcher()
        self.schedule = Schedule(run.recipe, len(training))
        self.objective = objective_of(run.recipe)
        self.normalization = run.normalization(self.processes.device)
        self.batches = TrainingBatches(dataset.train, training, self.schedule, self.normalization, self.processes)
        # Where no images are held out, the test images are looked at, and nothing is decided by them.
        self.split = "validation" if len(validation) else "test"
        self.unseen = dataset.train if len(validation) else dataset.test
        self.unseen_positions = validation if len(validation) else torch.arange(len(dataset.test))
        self.checkpoint_seconds = checkpoint_seconds
        self.interrupts = Interrupts()
        # Step and closed epochs of the newest checkpoint.
        self._saved = (progress.step, progress.epochs_closed) if already_saved else None
        self._saved_at = self._clock = time.monotonic()
        self._processor_clock = time.process_time()

    def go(self) -> None:
        """Until the last step is done; a StoppedError when that cannot be."""
        self.watcher.started(self.schedule, self.progress.step)
        try:
            with self.interrupts:
                try:
                    self._until_the_end()
                    return
                except ProcessLostError as error:
                    self.interrupts.no_more()
                    reason = f"step {self.progress.step + 1}: another process of this run is gone ({error}). "
                    reason += self._how_to_go_on()
        except DivergedError:
            reason = self._divergence()
        finally:
            self.watcher.finished()
        # Out here the first error, and with it all that its traceback holds on to, is gone.
        raise StoppedError(reason)

    def close(self) -> None:
        """Nothing more is computed or recorded."""
        self.stepper.disband()
        if self.log is not None:
            self.log.close()

    def _until_the_end(self) -> None:
        self._save()  # whatever happens next, there is something to go on from
        while True:
            if self.progress.step == (self.progress.epochs_closed + 1) * self.schedule.steps_per_epoch:
                self._close_epoch()
            if self.progress.step == self.schedule.steps:
                break
            self._one_step()
            if time.monotonic() - self._saved_at >= self.checkpoint_seconds and not self._epoch_is_over():
                self._save()
        self._save()
        self.processes.wait_for_all()  # while the writer writes, none leaves the group

    def _epoch_is_over(self) -> bool:
        """Then it is closed first: one checkpoint of a step is enough."""
        return self.progress.step % self.schedule.steps_per_epoch == 0

    def _one_step(self) -> None:
        step, seed = self.progress.step, self.run.recipe.seed
        objective = self.objective if step >= self.schedule.loss_begins else PLAIN
        learning_rate = self.schedule.learning_rate(step)
        images, labels = self.batches.at(step)
        torch.manual_seed(derived_seed(seed, "noise", step, self.processes.rank))
        stop = self.interrupts.received is not None
        result = self.stepper.advance(images, labels, objective, learning_rate, stop=stop)
        self.progress.step += 1
        self.progress.sums.add(result)
        self.watcher.stepped(self.progress.step, result, learning_rate)
        if self.progress.step % LOGGED_EVERY == 0:
            self._log("step", loss=result.loss, alpha=result.alpha, learning_rate=learning_rate)
        if result.stop:
            self._stop()

    def _close_epoch(self) -> None:
        epoch = self.progress.epochs_closed + 1
        means = self.progress.sums.means()
        record: dict[str, Any] = {"epoch": epoch, **means}
        is_best = False
        if self.schedule.evaluation_is_due(epoch):
            calibration = self._evaluate(lambda: self.interrupts.received is not None)
            if calibration is None:
                self._stop()
                return
            result = calibration.compute()
            is_best = self._is_best(result.nll)
            record[self.split] = result.metrics()
            self.watcher.evaluated(Evaluation(epoch, means, self.split, result, is_best))
        self.progress.epochs_closed, self.progress.sums = epoch, Sums()
        self._log("epoch", **record)
        if is_best:
            self._save()

    def _evaluate(self, should_stop: Callable[[], bool]) -> Calibration | None:
        return evaluate(
            self.stepper.model,
            self.unseen,
            self.unseen_positions,
            self.normalization,
            self.processes,
            should_stop=should_stop,
        )

    def _is_best(self, nll: float) -> bool:
        """Whether this is the best epoch so far, as far as may be judged: by held-out images, never by the test set."""
        if self.split != "validation" or not math.isfinite(nll):
            return False
        if self.progress.best is not None and nll >= self.progress.best["nll"]:
            return False
        self.progress.best = {"step": self.progress.step, "nll": nll}
        return True

    def _log(self, kind: str, **values: Any) -> None:
        if self.log is not None:
            self._take_time()
            times = {"seconds": self.progress.seconds, "processor_seconds": self.progress.processor_seconds}
            self.log.add({"kind": kind, "step": self.progress.step, **values, **times})

    def _take_time(self) -> None:
        now, processor_now = time.monotonic(), time.process_time()
        self.progress.seconds += now - self._clock
        self.progress.processor_seconds += processor_now - self._processor_clock
        self._clock, self._processor_clock = now, processor_now

    def _save(self) -> None:
        self._saved_at = time.monotonic()
        now = (self.progress.step, self.progress.epochs_closed)
        if not self.processes.is_writer or now == self._saved:
            return
        if not self.stepper.is_finite():
            raise DivergedError
        self._take_time()
        self.progress.scaler = self.stepper.scaler.state_dict()
        best = None if self.progress.best is None else int(self.progress.best["step"])
        state = {"recipe": self.run.recipe_hash(), **self.progress.to_dict()}
        self.run.checkpoints.save(self.stepper.model, self.stepper.optimizer, state, keep=best)
        self._saved = now

    def _stop(self) -> None:
        self._save()
        self.processes.wait_for_all()  # one that leaves first would have torchrun end the others, the writer too
        received = self.interrupts.received
        reason = f"interrupted by {received.name}" if received else "interrupted in another process"
        advice = f" {self._how_to_go_on()}" if self.processes.is_writer else ""
        raise StoppedError(f"{reason} after step {self.progress.step}.{advice}", 128 + (received or signal.SIGTERM))

    def _divergence(self) -> str:
        rate = self.schedule.learning_rate(self.progress.step)
        return (
            f"step {self.progress.step + 1}: the loss is not a finite number any more, at learning rate {rate:g}. "
            f"{self._how_to_go_on()} But the same recipe would diverge again; a new run with a lower "
            "--learning-rate, or with --clip-gradient 1, may not."
        )

    def _how_to_go_on(self) -> str:
        last = self.run.checkpoints.last_step()
        if last is None:
            return "There is no checkpoint yet."
        return f"The last checkpoint is that of step {last}; `singleshot train --resume {self.run.folder}` goes on."
