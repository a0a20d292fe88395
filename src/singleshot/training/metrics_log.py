"""What a run records as it goes: JSON lines, and TensorBoard where it is asked for."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from singleshot.common.files import write_text

Record = dict[str, Any]


class MetricsLog:
    """A file of records, one JSON object per line, each with the ``step`` after which it was made.

    A run that was killed may have logged past its last checkpoint: continued from there, it makes those lines again, so
    they are removed first. That is what came after ``from_step``, and the epochs after ``epochs_closed``, if given: a
    run may have been stopped between the last step of an epoch and its record. The time a run took is in its records;
    everything else repeats exactly.
    """

    def __init__(
        self, path: Path, *, from_step: int, epochs_closed: int | None = None, tensorboard: Path | None = None
    ) -> None:
        found = read_records(path) if path.exists() else []
        kept = [record for record in found if record["step"] <= from_step and not _is_open(record, epochs_closed)]
        write_text(path, "".join(map(_line, kept)))
        self._tensorboard = _tensorboard_writer(tensorboard, from_step) if tensorboard else None
        self._file = path.open("a", encoding="utf-8")

    def add(self, record: Record) -> None:
        """Write one record, on its way to disk before anything else happens."""
        self._file.write(_line(record))
        self._file.flush()
        if self._tensorboard is not None:
            for name, value in _scalars(record):
                self._tensorboard.add_scalar(name, value, record["step"])

    def close(self) -> None:
        """Nothing more will come."""
        self._file.close()
        if self._tensorboard is not None:
            self._tensorboard.close()


def read_records(path: Path) -> list[Record]:
    """All whole records of a log; a last line that a kill has cut off is left out."""
    parsed = map(_parsed, path.read_text(encoding="utf-8", errors="replace").splitlines())
    return [record for record in parsed if record is not None]


def _parsed(line: str) -> Record | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("step"), int) else None


def _is_open(record: Record, epochs_closed: int | None) -> bool:
    """Whether this is the record of an epoch that is yet to be closed."""
    epoch = record.get("epoch")
    return epochs_closed is not None and isinstance(epoch, int) and epoch > epochs_closed


def _line(record: Record) -> str:
    return json.dumps({name: _finite(value) for name, value in record.items()}, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """JSON has no infinity and no NaN."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _scalars(record: Record) -> list[tuple[str, float]]:
    """The numbers of a record under names that TensorBoard groups by."""
    group = str(record["kind"])
    found = []
    for name, value in record.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        for part, number in inner:
            if isinstance(number, float):
                found.append((f"{name}/{part}" if part else f"{group}/{name}", number))
    return found


def require_tensorboard() -> Any:
    """TensorBoard's writer, or an error that says how to get it."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError("--tensorboard needs the extra: pip install 'singleshot[tensorboard]'") from None
    return SummaryWriter


def _tensorboard_writer(folder: Path, from_step: int) -> Any:
    return require_tensorboard()(str(folder), purge_step=from_step + 1)
