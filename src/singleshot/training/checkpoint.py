"""Checkpoints: written atomically, verified by checksums, and unable to run code.

A checkpoint is a folder ``checkpoints/step-00000120`` with the weights and the optimizer's tensors as safetensors, the
training state as JSON, and a manifest with the sizes and checksums of all three. The folder is written under a
temporary name and then renamed: a kill or a full disk leaves the previous checkpoint intact.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from singleshot.common.files import fingerprint, write_text

if TYPE_CHECKING:
    from singleshot.training.step import StepResult

FORMAT = "singleshot.checkpoint/2"
FORMAT_WITHOUT_MANIFEST = "singleshot.checkpoint/1"  # the state has the checksums of the tensors, and none of its own
WEIGHTS, OPTIMIZER, STATE, MANIFEST = "weights.safetensors", "optimizer.safetensors", "state.json", "manifest.json"
_NAME = re.compile(r"step-(\d+)(?:-(\d+))?")

Count = Annotated[int, msgspec.Meta(ge=0)]
Files = dict[str, dict[str, int | str]]
"""Size and checksum of each file of a checkpoint."""


@dataclass
class EpochSums:
    """Sums over the steps of the current epoch."""

    steps: Count = 0
    loss: float = 0.0
    alpha: float = 0.0
    alpha_steps: Count = 0
    accuracy: float = 0.0

    def add(self, result: StepResult) -> None:
        """Add the result of one step."""
        self.steps += 1
        self.loss += result.loss
        self.accuracy += result.accuracy
        if result.alpha is not None:
            self.alpha_steps += 1
            self.alpha += result.alpha

    def means(self) -> dict[str, float | None]:
        """Return the averages over the steps; alpha is None if no step had several passes."""
        steps = max(1, self.steps)
        alpha = self.alpha / self.alpha_steps if self.alpha_steps else None
        return {"loss": self.loss / steps, "alpha": alpha, "train_accuracy": self.accuracy / steps}


@dataclass
class Best:
    """The checkpoint with the lowest validation NLL."""

    step: Count
    nll: float


@dataclass
class TrainingState:
    """The progress of a run, without tensors. Random states are derived from the seed and the step."""

    step: Count  # steps done
    epochs_closed: Count  # epochs logged, and evaluated if due
    best: Best | None = None
    sums: EpochSums = field(default_factory=EpochSums)
    seconds: float = 0.0  # wall-clock time spent in this run, over all its starts
    processor_seconds: float | None = 0.0  # CPU time of this process; None: not recorded from the start
    scaler: dict[str, Any] = field(default_factory=dict)  # loss scale of float16
    strength: dict[str, Any] = field(default_factory=dict)  # of a loss that is tuned
    tuned_at: Count | None = None  # steps before its last update

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> TrainingState:
        """Check the plain values of a state and ignore other fields; raise ValueError if they are not a state."""
        return msgspec.convert({"processor_seconds": None, **content}, cls)  # older checkpoints lack it


class CheckpointError(ValueError):
    """A checkpoint that is damaged or belongs to another network."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk."""

    folder: Path
    state: TrainingState
    recipe_hash: str
    files: Files

    @classmethod
    def open(cls, folder: Path) -> Checkpoint:
        """Open the checkpoint in a folder; its tensors are verified when they are loaded."""
        file = folder / MANIFEST
        try:
            manifest = read_json(file, FORMAT) if file.exists() else None
            files = None if manifest is None else msgspec.convert(manifest.get("files"), Files)
            file = folder / STATE
            if files is not None:
                _verify(folder, STATE, files)
            content = read_json(file, FORMAT_WITHOUT_MANIFEST if files is None else FORMAT)
            state = TrainingState.from_dict(content)
            files = msgspec.convert(content.get("files"), Files) if files is None else files
        except CheckpointError:
            raise
        except ValueError as error:
            raise CheckpointError(f"{file} is missing or damaged ({error}); {_advice(folder)}") from None
        name = _NAME.fullmatch(folder.name)
        if name is None or int(name[1]) != state.step:
            raise CheckpointError(f"{file} is damaged: it is the state of step {state.step}; {_advice(folder)}")
        return cls(folder, state, str(content.get("recipe")), files)

    @property
    def step(self) -> int:
        """Steps done."""
        return self.state.step

    def load_weights(self, model: nn.Module) -> None:
        """Load the weights into a model; raise `CheckpointError` if they are those of another network."""
        try:
            model.load_state_dict(self._tensors(WEIGHTS))
        except RuntimeError as error:  # names the tensors that are missing, unexpected, or of another shape
            differences = textwrap.shorten(str(error).partition("\n")[2], 500)
            raise CheckpointError(f"{self.folder} is a checkpoint of another network: {differences}") from None

    def load_optimizer(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Load the optimizer's tensors."""
        parameters = dict(model.named_parameters())
        for name, tensor in self._tensors(OPTIMIZER).items():
            kind, _, owner = name.partition("/")
            if owner not in parameters or tensor.shape != parameters[owner].shape:
                raise CheckpointError(f"{self.folder / OPTIMIZER} holds {name}, which the network does not have")
            # In the parameter's memory layout, as the optimizer creates it.
            optimizer.state[parameters[owner]][kind] = torch.empty_like(parameters[owner]).copy_(tensor)

    def _tensors(self, name: str) -> dict[str, Tensor]:
        _verify(self.folder, name, self.files)
        try:
            return load_file(self.folder / name)
        except SafetensorError as error:
            raise CheckpointError(f"{self.folder / name} cannot be read as safetensors ({error})") from None


def _verify(folder: Path, name: str, files: Files) -> None:
    """Compare a file of a checkpoint with its size and checksum."""
    path, expected = folder / name, files.get(name, {})
    try:
        found = fingerprint(path)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror}); {_advice(folder)}") from None
    if found != expected:
        differing = [f"{key} {found[key]} instead of {expected.get(key)}" for key in found]
        raise CheckpointError(f"{path} is damaged: it has {' and '.join(differing)}; {_advice(folder)}")


def _advice(folder: Path) -> str:
    """Say which checkpoint can be used instead of this one."""
    places = [place for _, _, place in Checkpoints(folder.parent)._places()]
    if places in ([], [folder]):
        return "there is no other checkpoint: start from scratch with another --output"
    if places[-1] != folder:  # the best is opened after the last, which is intact
        return f"the last checkpoint, {places[-1].name}, does not need it: use the last weights, not the best"
    return f"remove {folder} to resume from the previous checkpoint, {places[-2].name}"


class Checkpoints:
    """The checkpoints of a run: the last two and the best are kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def at(self, step: int) -> Checkpoint:
        """Open the newest checkpoint of this step."""
        newest = self._newest()
        if step not in newest:
            steps = ", ".join(map(str, newest)) or "none"
            raise CheckpointError(f"{self.folder} has no checkpoint of step {step}; available: {steps}")
        return Checkpoint.open(newest[step])

    def last(self) -> Checkpoint | None:
        """Open the newest checkpoint; None before the first."""
        step = self.last_step()
        return None if step is None else self.at(step)

    def last_step(self) -> int | None:
        """Return the step of the newest checkpoint."""
        return max(self._newest(), default=None)

    def save(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, state: TrainingState, *, recipe_hash: str
    ) -> None:
        """Write a checkpoint, then remove all others but the one before and the best."""
        version = max((number + 1 for found, number, _ in self._places() if found == state.step), default=0)
        place = self.folder / (f"step-{state.step:08d}" + (f"-{version}" if version else ""))
        temporary = self.folder / f".{place.name}.writing"
        try:
            shutil.rmtree(temporary, ignore_errors=True)  # left by a kill
            temporary.mkdir(parents=True)
            save_file(_on_cpu(model.state_dict()), temporary / WEIGHTS)
            save_file(_on_cpu(_optimizer_tensors(model, optimizer)), temporary / OPTIMIZER)
            content = {"format": FORMAT, "recipe": recipe_hash, **asdict(state)}
            write_text(temporary / STATE, json.dumps(content, indent=2, allow_nan=False))
            files = {name: fingerprint(temporary / name) for name in (WEIGHTS, OPTIMIZER, STATE)}
            write_text(temporary / MANIFEST, json.dumps({"format": FORMAT, "files": files}, indent=2))
            for path in (temporary / WEIGHTS, temporary / OPTIMIZER, temporary):
                _sync(path)
            temporary.rename(place)
        except (OSError, SafetensorError) as error:
            shutil.rmtree(temporary, ignore_errors=True)
            last = self.last_step()
            kept = "there is no earlier one" if last is None else f"the one from step {last} is kept"
            raise OSError(
                f"the checkpoint of step {state.step} could not be written to {place} ({error}); {kept}"
            ) from None
        _sync(self.folder)
        best = None if state.best is None else self._newest().get(state.best.step)
        previous = [found for _, _, found in self._places() if found != place][-1:]
        for other in [*self.folder.glob(".step-*.writing"), *(found for _, _, found in self._places())]:
            if other not in (place, best, *previous):
                shutil.rmtree(other, ignore_errors=True)

    def _places(self) -> list[tuple[int, int, Path]]:
        """Step, version and folder of every checkpoint, in the order they were written."""
        found = [(_NAME.fullmatch(place.name), place) for place in self.folder.glob("step-*")]
        return sorted((int(match[1]), int(match[2] or 0), place) for match, place in found if match)

    def _newest(self) -> dict[int, Path]:
        return {step: place for step, _, place in self._places()}  # a later version replaces an earlier one


def _optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's tensors by kind and parameter: ``momentum_buffer/conv1.weight``."""
    return {
        f"{kind}/{name}": value
        for name, parameter in model.named_parameters()
        for kind, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def _on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _sync(path: Path) -> None:
    """Flush a file or folder to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_json(path: Path, format: str) -> dict[str, Any]:
    """Read a JSON object of this format; raise ValueError for anything else."""
    try:
        content = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if content.get("format") != format:
        raise ValueError(f"unknown format {content.get('format')!r}")
    return content
