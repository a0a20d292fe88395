"""The log of a run: a JSON record per logged step and per epoch, and the marks of what was lost."""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from singleshot.common.files import write_text
from singleshot.common.text import listed
from singleshot.training.checkpoint import TrainingState

LOG_INTERVAL = 50  # steps

Record = dict[str, Any]


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
