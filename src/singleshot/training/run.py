"""A training run on disk.

runs/a/recipe.yaml       the resolved recipe
runs/a/run.json          class names, normalization, versions and machine
runs/a/metrics.jsonl     one line per logged step and per epoch
runs/a/checkpoints/      the last two and the best
"""

from __future__ import annotations

import hashlib
import json
import warnings
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from singleshot.common.files import write_text
from singleshot.common.text import listed
from singleshot.training.checkpoint import Checkpoint, Checkpoints, TrainingState, read_json
from singleshot.training.recipe import Recipe
from singleshot.training.recipe_file import read_recipe, recipe_text

if TYPE_CHECKING:
    import torch
    from torch import nn

    from singleshot.data import Dataset
    from singleshot.data.augmentation import Normalization

FORMAT = "singleshot.run/1"
RECIPE, INFO, METRICS_LOG, CHECKPOINTS = "recipe.yaml", "run.json", "metrics.jsonl", "checkpoints"

LOG_INTERVAL = 50  # steps

Record = dict[str, Any]


@dataclass(frozen=True)
class RunInfo:
    """Properties of the data set that using the weights requires, and the environment of the training."""

    class_names: tuple[str, ...]
    channels: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    images: tuple[int, int]  # in the training and the test part of the data set
    environment: dict[str, Any]

    def __post_init__(self) -> None:
        if not len(self.mean) == len(self.std) == self.channels:
            raise ValueError(f"{self.channels} channels need as many values of mean and std")

    @classmethod
    def of(cls, dataset: Dataset, environment: dict[str, Any]) -> RunInfo:
        """Return the information on a run with this data set."""
        images = len(dataset.train), len(dataset.test)
        return cls(dataset.class_names, dataset.channels, dataset.mean, dataset.std, images, environment)


@dataclass(frozen=True)
class Run:
    """A training run in a folder.

    >>> import tempfile
    >>> from singleshot.training import train
    >>> recipe = Recipe(dataset="digits", model="small_cnn", image_size=8, train_images=100, epochs=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     finished = train(recipe, folder)
    ...     run = Run.open(folder)
    >>> run.info.class_names[:3]
    ('0', '1', '2')
    """

    folder: Path
    recipe: Recipe
    info: RunInfo

    def create(self) -> None:
        """Write the recipe and the run information."""
        write_text(self.folder / RECIPE, recipe_text(self.recipe))
        write_text(self.folder / INFO, json.dumps({"format": FORMAT, **asdict(self.info)}, indent=2))

    @classmethod
    def open(cls, folder: Path | str) -> Run:
        """Open the run in a folder."""
        folder = Path(folder)
        if not cls.exists(folder):
            raise ValueError(f"{folder} is not a run: it has no {INFO}; `singleshot train --output {folder}` makes one")
        recipe = read_recipe(folder / RECIPE)
        try:
            recipe.resolved()
        except ValueError as error:
            raise ValueError(f"{folder / RECIPE}: {error}") from None
        try:
            info = msgspec.convert(read_json(folder / INFO, FORMAT), RunInfo)
        except ValueError as error:
            raise ValueError(f"{folder / INFO} is damaged ({error})") from None
        return cls(folder, recipe, info)

    @staticmethod
    def exists(folder: Path) -> bool:
        """Whether a run was started in this folder."""
        return (folder / INFO).exists()

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints on disk."""
        return Checkpoints(self.folder / CHECKPOINTS)

    def records(self) -> list[Record]:
        """Return the records of the metrics log."""
        return read_records(self.folder / METRICS_LOG)

    def open_log(self, state: TrainingState, *, start: LogStart | None = None, tensorboard: bool) -> MetricsLog:
        """Open the log to continue from this state; a new run is created first."""
        if not self.exists(self.folder):
            self.create()
        logs = self.folder / "tensorboard" if tensorboard else None
        return MetricsLog(self.folder / METRICS_LOG, state, start=start, tensorboard=logs)

    def recipe_hash(self) -> str:
        """Return the checksum of the recipe file. It stays the same if a later version renames or reorders fields."""
        return hashlib.sha256((self.folder / RECIPE).read_text(encoding="utf-8").encode()).hexdigest()

    def checkpoint(self, which: str = "last") -> Checkpoint:
        """Open the ``last`` checkpoint, or the ``best`` on the validation images."""
        last = self.checkpoints.last()
        if last is None:
            raise ValueError(
                f"{self.folder} has no checkpoint yet; resume it: `singleshot train --resume {self.folder}`"
            )
        if last.recipe_hash != self.recipe_hash():
            raise ValueError(f"{last.folder} belongs to another recipe than {self.folder / RECIPE}; remove it")
        if which == "last":
            return last
        if last.state.best is None:
            raise ValueError(
                f"{self.folder} has no best checkpoint: no validation images are held out to the end "
                "(--validation 0.1 --give-back 0)"
            )
        return self.checkpoints.at(last.state.best.step)

    def load_model(self, which: str = "last") -> nn.Module:
        """Return the trained network in evaluation mode, on the CPU."""
        model = self.new_model()
        self.checkpoint(which).load_weights(model)
        return model.eval()

    def check_dataset(self, dataset: Dataset) -> None:
        """Raise ValueError unless the numbers of images, classes and pixel statistics are those of the run."""
        if RunInfo.of(dataset, {}) != replace(self.info, environment={}):
            raise ValueError(
                f"{self.folder} was trained on other data: the images or classes of {self.recipe.dataset} have "
                "changed; restore them, or start from scratch with another --output"
            )

    def new_model(self) -> nn.Module:
        """Return the network of this run with random weights."""
        from singleshot.models import create_model

        return create_model(
            self.recipe.model,
            num_classes=len(self.info.class_names),
            in_channels=self.info.channels,
            width=self.recipe.width,
            noise=self.recipe.noise,
        )

    def normalization(self, device: torch.device | str = "cpu") -> Normalization:
        """Return the function from uint8 images to the input of the network."""
        from singleshot.data.augmentation import Normalization

        return Normalization(self.info.mean, self.info.std, channels_last=self.recipe.channels_last, device=device)


def recipe_differences(stored: Recipe, given: Recipe) -> list[str]:
    """Describe the fields in which two recipes differ."""
    return [
        f"{field.name} is {getattr(stored, field.name)!r}, not {getattr(given, field.name)!r}"
        for field in fields(Recipe)
        if getattr(stored, field.name) != getattr(given, field.name)
    ]


class LogStart(NamedTuple):
    """Where a run began: steps and epochs that another run had done."""

    step: int
    epoch: int


class MetricsLog:
    """A file of JSON records, one per line, each with the ``step`` after which it was written.

    A killed run may have logged past its last checkpoint, and logs those records again when it is resumed. So records
    of later steps, epochs and updates of the strength than those of the state are removed first. Records that are
    damaged, or missing since the ``start``, cause a warning, and a record of the kind ``gap`` names them.
    """

    def __init__(
        self, path: Path, state: TrainingState, *, start: LogStart | None = None, tensorboard: Path | None = None
    ) -> None:
        self._tensorboard = None
        if tensorboard is not None:
            self._tensorboard = require_tensorboard()(str(tensorboard), purge_step=state.step + 1)
        tuned_at = -1 if state.tuned_at is None else state.tuned_at
        found, damaged = _read_log(path)
        kept = [
            record
            for record in found
            if record["step"] <= (tuned_at if record.get("kind") == "strength" else state.step)
            and record.get("epoch", 0) <= state.epochs_closed
        ]
        gap = _missing(kept, state, start or LogStart(state.step, state.epochs_closed))
        if damaged or gap:
            kept.append({"kind": "gap", "step": state.step, "damaged_lines": damaged, **gap})
            warnings.warn(_gap_message(path, damaged, gap), stacklevel=2)
        write_text(path, "".join(map(_line, kept)))
        self._file = path.open("a", encoding="utf-8")

    def add(self, record: Record) -> None:
        """Write one record and flush."""
        self._file.write(_line(record))
        self._file.flush()
        if self._tensorboard is not None:
            for name, value in _scalars(record):
                self._tensorboard.add_scalar(name, value, record["step"])

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        if self._tensorboard is not None:
            self._tensorboard.close()


class _Position(msgspec.Struct):
    step: int
    epoch: int = 0


def read_records(path: Path) -> list[Record]:
    """Read the complete records of a log, if there is one."""
    return _read_log(path)[0]


def _read_log(path: Path) -> tuple[list[Record], int]:
    """Return the records and the number of damaged lines; a last line cut off by a kill is not counted."""
    records: list[Record] = []
    content = path.read_bytes() if path.exists() else b""
    lines = content.splitlines(keepends=True)
    is_read = True
    for line in lines:
        is_read = False
        with suppress(ValueError, RecursionError):
            record = msgspec.json.decode(line, type=Record)
            msgspec.convert(record, _Position)
            records.append(record)
            is_read = True
    is_cut_off = not is_read and not lines[-1].endswith(b"\n")
    return records, len(lines) - len(records) - is_cut_off


def _missing(records: list[Record], state: TrainingState, start: LogStart) -> dict[str, list[int]]:
    """Return the epochs and logged steps since the start that have no record, and no earlier gap names."""
    expected = {
        "epoch": set(range(start.epoch + 1, state.epochs_closed + 1)),
        "step": {step for step in range(LOG_INTERVAL, state.step + 1, LOG_INTERVAL) if step > start.step},
    }
    for record in records:
        kind = record.get("kind")
        if kind == "gap":
            expected = {name: numbers.difference(record.get(f"{name}s") or ()) for name, numbers in expected.items()}
        elif kind in expected:
            expected[kind].discard(record.get(kind))
    return {f"{name}s": sorted(numbers) for name, numbers in expected.items() if numbers}


def _gap_message(path: Path, damaged: int, gap: dict[str, list[int]]) -> str:
    missing = [f"{name} {listed(list(map(str, numbers)))}" for name, numbers in gap.items()]
    lost = [
        *([f"{damaged:,} lines are damaged"] if damaged else []),
        *([f"it lacks {' and '.join(missing)}"] if gap else []),
    ]
    return f"{path}: {' and '.join(lost)}; the other records are kept, and a record of the kind gap marks the place"


def _line(record: Record) -> str:
    return msgspec.json.encode(record).decode() + "\n"  # NaN and infinity become null


def _scalars(record: Record) -> list[tuple[str, float]]:
    """The numbers of a record under the names by which TensorBoard groups them."""
    found = []
    for name, value in record.items():
        if isinstance(value, dict):
            found += [(f"{name}/{part}", number) for part, number in value.items() if isinstance(number, float)]
        elif isinstance(value, float):
            found.append((f"{record['kind']}/{name}", value))
    return found


def require_tensorboard() -> Any:
    """Return TensorBoard's writer class, or raise ValueError if it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError("--tensorboard needs an extra: pip install 'singleshot[tensorboard]'") from None
    return SummaryWriter
