"""Bringing a stopped run back: the writer has the checkpoint, every process needs what is in it."""

from __future__ import annotations

import json

import torch

from singleshot.training.checkpoint import Checkpoint
from singleshot.training.run_state import RunState
from singleshot.training.step import Stepper


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
