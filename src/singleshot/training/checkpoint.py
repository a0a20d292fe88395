"""Checkpoints that are whole or not there, and that cannot run code.

A checkpoint is a folder ``checkpoints/step-00000120`` with the weights and the optimizer's tensors as safetensors, and
everything else as JSON with the sizes and checksums of both. It is written beside its place and renamed into it: a kill
or a full disk in the middle leaves the one before.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from singleshot.common.files import fingerprint, write_text

FORMAT = "singleshot.checkpoint/1"
WEIGHTS, OPTIMIZER, STATE = "weights.safetensors", "optimizer.safetensors", "state.json"
_NAME = re.compile(r"step-(\d+)(?:-(\d+))?")
_SHOWN = 5  # differing tensors named in an error


class CheckpointError(ValueError):
    """A checkpoint that is damaged, or of another network."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk."""

    folder: Path
    state: dict[str, Any]

    @classmethod
    def open(cls, folder: Path) -> Checkpoint:
        """The checkpoint in this folder; its tensors are compared with their checksums when they are loaded."""
        try:
            state = json.loads((folder / STATE).read_text(encoding="utf-8"))
            if state["format"] != FORMAT:
                raise CheckpointError(f"{folder / STATE} is of another format, {state['format']!r}")
            dict(state["files"])
            int(state["step"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            if isinstance(error, CheckpointError):
                raise
            raise CheckpointError(f"{folder / STATE} is missing or damaged ({error})") from None
        return cls(folder, state)

    @property
    def step(self) -> int:
        """Steps done when it was written."""
        return int(self.state["step"])

    def load_weights(self, model: nn.Module) -> None:
        """Put the weights into a model; one of another network is an error that tells the tensors apart."""
        tensors = self._tensors(WEIGHTS)
        differences = _differences(tensors, model.state_dict())
        if differences:
            raise CheckpointError(f"{self.folder} is a checkpoint of another network: {differences}")
        model.load_state_dict(tensors)

    def load_optimizer(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Put the optimizer's tensors back, each beside its parameter."""
        parameters = dict(model.named_parameters())
        for name, tensor in self._tensors(OPTIMIZER).items():
            kind, _, owner = name.partition("/")
            if owner not in parameters or tensor.shape != parameters[owner].shape:
                raise CheckpointError(f"{self.folder / OPTIMIZER} holds {name}, which the network has no place for")
            # In the parameter's own memory layout, as the optimizer would have made it.
            optimizer.state[parameters[owner]][kind] = torch.empty_like(parameters[owner]).copy_(tensor)

    def _tensors(self, name: str) -> dict[str, Tensor]:
        _verify(self.folder / name, self.state["files"].get(name))
        return _read_tensors(self.folder / name)


class Checkpoints:
    """All checkpoints of a run: the last and the best are kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def at(self, step: int) -> Checkpoint:
        """The newest checkpoint of this step."""
        places = [place for found, _, place in self._places() if found == step]
        if not places:
            there = ", ".join(str(found) for found, _, _ in self._places()) or "none"
            raise CheckpointError(f"{self.folder} has no checkpoint of step {step}; there are: {there}")
        return Checkpoint.open(places[-1])

    def last(self) -> Checkpoint | None:
        """The newest checkpoint; None before the first."""
        places = self._places()
        return Checkpoint.open(places[-1][2]) if places else None

    def last_step(self) -> int | None:
        """The step of the newest checkpoint."""
        places = self._places()
        return places[-1][0] if places else None

    def save(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Any], *, keep: int | None
    ) -> None:
        """Write a checkpoint of ``state["step"]``, then remove all others but the newest of step ``keep``."""
        step = int(state["step"])
        again = max((number + 1 for found, number, _ in self._places() if found == step), default=0)
        place = self.folder / (f"step-{step:08d}" + (f"-{again}" if again else ""))
        beside = self.folder / f".{place.name}.writing"
        try:
            shutil.rmtree(beside, ignore_errors=True)  # what a kill has left
            beside.mkdir(parents=True)
            _write(beside, model, optimizer, state)
            beside.rename(place)
        except (OSError, SafetensorError) as error:
            shutil.rmtree(beside, ignore_errors=True)
            last = self.last_step()
            kept = "there is no earlier one" if last is None else f"that of step {last} is kept"
            raise OSError(f"the checkpoint of step {step} could not be written to {place} ({error}); {kept}") from None
        _sync(self.folder)
        self._prune({step, keep})

    def _places(self) -> list[tuple[int, int, Path]]:
        """Step, how many there were of that step before, and folder; in the order they were written."""
        found = [(_NAME.fullmatch(place.name), place) for place in self.folder.glob("step-*")]
        return sorted((int(match[1]), int(match[2] or 0), place) for match, place in found if match)

    def _prune(self, steps: set[int | None]) -> None:
        newest = {step: place for step, _, place in self._places() if step in steps}
        for place in [*self.folder.glob(".step-*.writing"), *(place for _, _, place in self._places())]:
            if place not in newest.values():
                shutil.rmtree(place, ignore_errors=True)


def _write(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    save_file(_plain(model.state_dict()), folder / WEIGHTS)
    save_file(_plain(_optimizer_tensors(model, optimizer)), folder / OPTIMIZER)
    files = {name: fingerprint(folder / name) for name in (WEIGHTS, OPTIMIZER)}
    for name in files:
        _sync(folder / name)
    write_text(folder / STATE, json.dumps({"format": FORMAT, **state, "files": files}, indent=2, allow_nan=False))
    _sync(folder)


def _optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What the optimizer remembers, by kind and parameter: ``momentum_buffer/conv1.weight``."""
    return {
        f"{kind}/{name}": value
        for name, parameter in model.named_parameters()
        for kind, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _verify(path: Path, expected: Any) -> None:
    others = f"; remove {path.parent} to go on from the checkpoint before it, if there is one"
    try:
        found = fingerprint(path)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror}){others}") from None
    if found != expected:
        wanted = expected if isinstance(expected, dict) else {}
        differing = [
            f"{name} {value}, not {wanted.get(name)}" for name, value in found.items() if value != wanted.get(name)
        ]
        raise CheckpointError(f"{path} is damaged: it has {' and '.join(differing)}{others}")


def _sync(path: Path) -> None:
    """On disk, not only on its way there."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read as safetensors ({error})") from None


def _differences(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> str:
    """In words: which tensors are missing, too many, or of another shape."""
    shapes = [
        f"{name} is {tuple(found[name].shape)} and should be {tuple(wanted[name].shape)}"
        for name in wanted
        if name in found and found[name].shape != wanted[name].shape
    ]
    parts = [
        ("it lacks", [name for name in wanted if name not in found]),
        ("it has besides", [name for name in found if name not in wanted]),
        ("of another shape:", shapes),
    ]
    return "; ".join(f"{words} {_first(names)}" for words, names in parts if names)


def _first(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
