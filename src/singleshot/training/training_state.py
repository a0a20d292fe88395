"""How far a run is: what a checkpoint keeps besides tensors."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from singleshot.training.checkpoint import Checkpoint
from singleshot.training.step import Stepper, StepResult


@dataclass
class Sums:
    """What the steps of the epoch under way gave, added up."""

    steps: int = 0
    loss: float = 0.0
    alpha: float = 0.0
    alpha_steps: int = 0
    accuracy: float = 0.0

    def add(self, result: StepResult) -> None:
        """Count one more step."""
        self.steps += 1
        self.loss += result.loss
        self.accuracy += result.accuracy
        if result.alpha is not None:
            self.alpha_steps += 1
            self.alpha += result.alpha

    def means(self) -> dict[str, float | None]:
        """The averages over the steps; alpha is None where no step had several passes."""
        steps = max(1, self.steps)
        alpha = self.alpha / self.alpha_steps if self.alpha_steps else None
        return {"loss": self.loss / steps, "alpha": alpha, "train_accuracy": self.accuracy / steps}


@dataclass
class RunState:
    """All that a run must remember. No random state is among it: each step's follows from the seed and the step."""

    step: int = 0  # steps done
    epochs_closed: int = 0  # epochs that were logged, and evaluated where that was due
    best: dict[str, float] | None = None  # step and validation NLL of the best checkpoint
    sums: Sums = field(default_factory=Sums)
    seconds: float = 0.0  # spent in this run so far, over all its starts
    # Of this process, which other work on the machine does not lengthen; NaN, which stays so whatever is added, where
    # a part of it was not recorded.
    processor_seconds: float = 0.0
    scaler: dict[str, Any] = field(default_factory=dict)  # of float16's loss scale

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON, which keeps floats exactly and knows no NaN."""
        unknown = {"processor_seconds": None} if math.isnan(self.processor_seconds) else {}
        return {**asdict(self), **unknown}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> RunState:
        """What `to_dict` gave; a ValueError where it is something else."""
        try:
            best, sums = content["best"], content["sums"]
            processor_seconds = content.get("processor_seconds")  # older checkpoints lack it
            return cls(
                step=_count(content["step"]),
                epochs_closed=_count(content["epochs_closed"]),
                best=None if best is None else {"step": _count(best["step"]), "nll": float(best["nll"])},
                sums=Sums(
                    steps=_count(sums["steps"]),
                    loss=float(sums["loss"]),
                    alpha=float(sums["alpha"]),
                    alpha_steps=_count(sums["alpha_steps"]),
                    accuracy=float(sums["accuracy"]),
                ),
                seconds=float(content["seconds"]),
                processor_seconds=math.nan if processor_seconds is None else float(processor_seconds),
                scaler=dict(content["scaler"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"the checkpoint's state is not that of a run ({error!r})") from None


def _count(value: Any) -> int:
    if int(value) != value or value < 0:
        raise ValueError(f"{value!r} is no count")
    return int(value)


def restore(stepper: Stepper, last: Checkpoint | None, start: RunState) -> RunState:
    """The progress of the last checkpoint, its optimizer state put back; ``start`` where there is none.

    Only the writer's ``last`` is asked for: the other machines need not see its files.
    """
    progress = start
    if last is not None:
        last.load_optimizer(stepper.model, stepper.optimizer)
        progress = RunState.from_dict(last.state)
    processes, momenta = stepper.processes, _momenta(stepper)
    told = processes.text_from_writer(json.dumps({**progress.to_dict(), "momenta": sorted(momenta)}))
    content = json.loads(told)
    progress = RunState.from_dict(content)
    if processes.count > 1:
        for name, parameter in stepper.model.named_parameters():
            if name in content["momenta"]:
                state = stepper.optimizer.state[parameter]
                state["momentum_buffer"] = processes.from_writer(momenta.get(name, torch.empty_like(parameter)))
    if progress.scaler:  # a run that has not begun has none
        stepper.scaler.load_state_dict(progress.scaler)
    return progress


def _momenta(stepper: Stepper) -> dict[str, torch.Tensor]:
    """The optimizer's momentum by parameter; a parameter that was never updated has none."""
    found = {}
    for name, parameter in stepper.model.named_parameters():
        buffer = stepper.optimizer.state.get(parameter, {}).get("momentum_buffer")
        if buffer is not None:
            found[name] = buffer
    return found
