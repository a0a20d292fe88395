"""The loop over steps and epochs: evaluation, logging, checkpoints and interruption."""

from __future__ import annotations

import json
import math
import signal
import time
from dataclasses import asdict, replace
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from singleshot.common.errors import StoppedError
from singleshot.common.splits import split_training
from singleshot.data import Dataset, Images
from singleshot.metrics import CalibrationResult
from singleshot.sampling.state import random_state
from singleshot.training.checkpoint import Best, Checkpoint, EpochSums, TrainingState
from singleshot.training.display import Callback, EpochEvaluation
from singleshot.training.distributed import Processes, ProcessLostError, lost_process_errors
from singleshot.training.inference import evaluate, shared_batches
from singleshot.training.interrupts import Interrupts
from singleshot.training.metrics_log import LOG_INTERVAL, LogStart
from singleshot.training.recipe_file import recipe_text
from singleshot.training.run import Run
from singleshot.training.schedule import Schedule, TrainingBatches, derived_seed, unused_positions
from singleshot.training.step import DivergedError, Stepper, initial_strength

MAX_TRACKED = 5000  # images of a part that is tracked
TUNING_RECORD = ("temperature", "score", "gammas")  # what the log records of an update from held-out images


class TrainingLoop:
    """A run in progress."""

    def __init__(
        self,
        run: Run,
        dataset: Dataset,
        model: nn.Module,
        processes: Processes,
        *,
        callback: Callback,
        checkpoint_seconds: float,
        tensorboard: bool,
    ) -> None:
        self.run, self.processes = run, processes
        recipe = run.recipe
        training, validation = split_training(
            dataset.train.labels, validation=recipe.validation, train_images=recipe.train_images
        )
        if recipe.is_tuned and len(set(dataset.train.labels[validation].tolist())) < 2:
            otherwise = "fix the strength with --strength 1" if recipe.tunes_strength else "use another --loss"
            raise ValueError(
                f"{len(validation)} held-out image(s) of a single class cannot tune the loss; hold out more with "
                f"--validation, or {otherwise}"
            )
        self.schedule = Schedule(recipe, len(training))
        self.normalization = run.normalization(processes.device)
        self.batches = TrainingBatches(
            dataset.train, training, validation, self.schedule, self.normalization, processes
        )
        mine = recipe_text(recipe) + json.dumps(asdict(replace(run.info, environment={})))
        if processes.any(processes.broadcast_text(mine) != mine):
            raise ValueError("the processes have different recipes or images; check their flags and data roots")
        self.dataset, self.held_out = dataset, validation
        self.strength = initial_strength(recipe)
        # Only the main process reads files: Stepper broadcasts the weights, and _restore the rest.
        last = processes.on_main(lambda: run.load_first_weights(model))
        self.stepper = Stepper(model, recipe, processes)
        self.state = self._restore(last)
        start = LogStart(self.schedule.first_step, self.schedule.first_step // self.schedule.steps_per_epoch)
        self.log = processes.on_main(lambda: run.open_log(self.state, start=start, tensorboard=tensorboard))
        self.callback = callback if processes.is_main else Callback()
        self.checkpoint_seconds = checkpoint_seconds
        self.interrupts = Interrupts()
        self._saved = None if last is None else self._progress()  # of the newest checkpoint
        self._saved_at = self._clock = time.monotonic()
        self._processor_clock = time.process_time()

    def _restore(self, last: Checkpoint | None) -> TrainingState:
        """Restore the optimizer from the main process's last checkpoint, and return its state or that of a new run."""
        first, steps = self.schedule.first_step, self.schedule.steps
        state = TrainingState(first, epochs_closed=first // self.schedule.steps_per_epoch)
        model, optimizer = self.stepper.model, self.stepper.optimizer
        self.processes.on_main(lambda: None if last is None else last.load_optimizer(model, optimizer))
        if last is not None:
            state = last.state
        updated = [name for name, parameter in model.named_parameters() if optimizer.state.get(parameter)]
        text = self.processes.broadcast_text(json.dumps({**asdict(state), "updated": updated}))
        content: dict[str, Any] = json.loads(text)
        state = TrainingState.from_dict(content)
        if not first <= state.step <= steps:
            raise ValueError(f"{self.run.folder} has a checkpoint of step {state.step}, but only {steps} steps")
        if self.processes.count > 1:
            for name, parameter in model.named_parameters():
                if name in content["updated"]:
                    momentum = optimizer.state[parameter].get("momentum_buffer", torch.empty_like(parameter))
                    optimizer.state[parameter]["momentum_buffer"] = self.processes.broadcast(momentum)
        if state.scaler:  # empty in a new run
            self.stepper.scaler.load_state_dict(state.scaler)
        if state.strength and self.strength is not None:
            try:
                self.strength.load_state_dict(state.strength)
            except ValueError as error:
                raise ValueError(f"the last checkpoint of {self.run.folder} is damaged: {error}") from None
        return state

    def train(self) -> None:
        """Train until the last step; raise `StoppedError` if interrupted, diverged, or without another process."""
        self.callback.on_start(self.schedule, self.state.step)
        try:
            with self.interrupts:
                self._train()
                return
        except ProcessLostError as error:
            message = f"another process of this run was lost ({error}). {self._resume_advice()}"
        except DivergedError:
            rate = self.schedule.learning_rate(self.state.step)
            message = (
                f"the loss is no longer finite, at learning rate {rate:g}. {self._resume_advice()} The same recipe "
                "would diverge again: start a new run with a lower --learning-rate or with --clip-gradient 1."
            )
        finally:
            self.callback.on_end()
        # Raised outside of the handlers: the first error and all that its traceback refers to are released.
        raise StoppedError(f"step {self.state.step + 1}: {message}")

    def close(self) -> None:
        """Release the process group's wrapper and the log."""
        self.stepper.release()
        if self.log is not None:
            self.log.close()

    def _train(self) -> None:
        self._save()  # so that any later error leaves a checkpoint
        while True:
            if self.schedule.is_tuned_at(self.state.step) and self.state.tuned_at != self.state.step:
                self._tune()
            if self.state.step == (self.state.epochs_closed + 1) * self.schedule.steps_per_epoch:
                self._close_epoch()
            if self.state.step == self.schedule.steps:
                break
            self._step()
            epoch_is_over = self.state.step % self.schedule.steps_per_epoch == 0  # then it is closed before saving
            if time.monotonic() - self._saved_at >= self.checkpoint_seconds and not epoch_is_over:
                self._save()
        self._save()
        self.processes.barrier()  # no process leaves the group while the main process writes

    def _step(self) -> None:
        step = self.state.step
        learning_rate = self.schedule.learning_rate(step)
        images, labels = self.batches.at(step)
        seed = derived_seed(self.run.recipe.seed, "noise", step, self.processes.rank)
        with random_state(seed, None, self.processes.device):  # other threads may sample or train as well
            result = self.stepper.advance(
                images,
                labels,
                learning_rate,
                cross_entropy=step < self.schedule.first_loss_step,
                strength=self.strength,
                stop=self.interrupts.received is not None,
            )
        self.state.step += 1
        self.state.sums.add(result)
        self.callback.on_step(self.state.step, result, learning_rate)
        if self.state.step % LOG_INTERVAL == 0:
            self._log("step", loss=result.loss, alpha=result.alpha, learning_rate=learning_rate)
        if result.stop:
            self._stop()

    def _tune(self) -> None:
        """Update the strength of the loss from the held-out images."""
        assert self.strength is not None
        logits = [torch.empty(0, len(self.run.info.class_names), device=self.processes.device)]
        labels = [torch.empty(0, dtype=torch.long, device=self.processes.device)]
        for batch in shared_batches(
            self.stepper.model,
            self.dataset.train,
            self.schedule.tuning_part(self.state.step, self.held_out),
            self.normalization,
            self.processes,
            should_stop=lambda: self.interrupts.received is not None,
        ):
            if batch is None:
                self._stop()
            if len(batch[1]):
                logits.append(batch[0])
                labels.append(batch[1])
        with lost_process_errors():
            self.strength.update(logits=torch.cat(logits), labels=torch.cat(labels))
        self.state.strength, self.state.tuned_at = self.strength.state_dict(), self.state.step
        found = {name: value for name, value in self.state.strength.items() if name in TUNING_RECORD}
        self._log("strength", strength=float(self.strength), **found)
        self.callback.on_strength(self.state.step, self.strength)

    def _close_epoch(self) -> None:
        epoch, means = self.state.epochs_closed + 1, self.state.sums.means()
        record: dict[str, Any] = {"epoch": epoch, **means}
        is_best = False
        if self.schedule.is_evaluated(epoch):
            results = {split: self._evaluate(*images) for split, images in self._splits().items()}
            record |= {split: result.metrics() for split, result in results.items()}
            split, result = next(iter(results.items()))
            best = self.state.best
            is_better = math.isfinite(result.nll) and (best is None or result.nll < best.nll)
            is_best = is_better and self.run.recipe.holds_out  # test images select nothing
            if is_best:
                self.state.best = Best(self.state.step, result.nll)
            self.callback.on_evaluation(EpochEvaluation(epoch, means, split, result, is_best))
        self.state.epochs_closed, self.state.sums = epoch, EpochSums()
        self._log("epoch", **record)
        if is_best:
            self._save()

    def _splits(self) -> dict[str, tuple[Images, Tensor]]:
        """The images to evaluate after an epoch, with their positions; the first split is shown."""
        train, test = self.dataset.train, self.dataset.test
        splits = {}
        if len(self.held_out) and self.state.step <= self.schedule.give_back_step:  # not yet trained on
            splits["validation"] = train, self.held_out
        if self.run.recipe.track:
            unused = unused_positions(self.run.recipe, train.labels)[:MAX_TRACKED]
            unseen = ("unused", train, unused) if len(unused) else ("test", test, torch.arange(len(test)))
            splits |= {unseen[0]: unseen[1:], "train": (train, self.batches.positions[:MAX_TRACKED])}
        return splits or {"test": (test, torch.arange(len(test)))}

    def _evaluate(self, images: Images, positions: Tensor) -> CalibrationResult:
        calibration = evaluate(
            self.stepper.model,
            images,
            positions,
            self.normalization,
            self.processes,
            should_stop=lambda: self.interrupts.received is not None,
        )
        if calibration is None:
            self._stop()
        return calibration.compute()

    def _log(self, kind: str, **values: Any) -> None:
        if self.log is not None:
            self._add_time()
            times = {"seconds": self.state.seconds, "processor_seconds": self.state.processor_seconds}
            self.log.add({"kind": kind, "step": self.state.step, **values, **times})

    def _add_time(self) -> None:
        now, processor_now = time.monotonic(), time.process_time()
        self.state.seconds += now - self._clock
        if self.state.processor_seconds is not None:
            self.state.processor_seconds += processor_now - self._processor_clock
        self._clock, self._processor_clock = now, processor_now

    def _save(self) -> None:
        self._saved_at = time.monotonic()
        current = self._progress()
        if not self.processes.is_main or current == self._saved:
            return
        if not self.stepper.is_finite():
            raise DivergedError
        self._add_time()
        self.state.scaler = self.stepper.scaler.state_dict()
        model, optimizer = self.stepper.model, self.stepper.optimizer
        self.run.checkpoints.save(model, optimizer, self.state, recipe_hash=self.run.recipe_hash())
        self._saved = current

    def _progress(self) -> tuple[int, int, int | None]:
        return self.state.step, self.state.epochs_closed, self.state.tuned_at

    def _stop(self) -> NoReturn:
        self._save()
        self.processes.barrier()  # torchrun ends all processes, including the main one, when the first leaves
        received = self.interrupts.received
        reason = f"interrupted by {received.name}" if received else "interrupted in another process"
        advice = f" {self._resume_advice()}" if self.processes.is_main else ""
        raise StoppedError(f"{reason} after step {self.state.step}.{advice}", 128 + (received or signal.SIGTERM))

    def _resume_advice(self) -> str:
        last = self.run.checkpoints.last_step()
        if last is None:
            return "There is no checkpoint yet."
        return f"The last checkpoint is from step {last}; resume with `singleshot train --resume {self.run.folder}`."
