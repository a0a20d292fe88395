from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from singleshot.training.metrics_log import MetricsLog, Record, read_records


def step(number: int, **values: Any) -> Record:
    return {"kind": "step", "step": number, "loss": 2.5 / number, **values}


def written(path: Path, *records: Record, from_step: int = 0, tensorboard: Path | None = None) -> None:
    log = MetricsLog(path, from_step=from_step, tensorboard=tensorboard)
    for record in records:
        log.add(record)
    log.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


def test_each_record_is_a_line_of_json_and_is_there_at_once(path: Path) -> None:
    log = MetricsLog(path, from_step=0)
    assert read_records(path) == []
    records = [step(50, alpha=None), step(100, alpha=0.1), {"kind": "epoch", "step": 100, "test": {"ece": 1 / 3}}]
    for count, record in enumerate(records, start=1):
        log.add(record)
        assert [json.loads(line) for line in path.read_text().splitlines()] == records[:count]  # before it is closed
    log.close()
    assert read_records(path) == records


@pytest.mark.parametrize("from_step", [0, 99, 100, 149, 150, 10_000])
def test_what_was_logged_after_the_checkpoint_is_dropped_on_reopening(from_step: int, path: Path) -> None:
    records = [step(50), step(100), {"kind": "epoch", "step": 100}, step(150)]
    written(path, *records)
    again = step(from_step + 1)
    written(path, again, from_step=from_step)
    assert read_records(path) == [*(record for record in records if record["step"] <= from_step), again]


@pytest.mark.parametrize(("epochs_closed", "kept"), [(0, [50]), (1, [50, 100]), (None, [50, 100])])
def test_an_epoch_that_the_checkpoint_has_not_closed_is_recorded_anew(
    epochs_closed: int | None, kept: list[int], path: Path
) -> None:
    written(path, step(50), {"kind": "epoch", "step": 100, "epoch": 1})
    MetricsLog(path, from_step=100, epochs_closed=epochs_closed).close()
    assert [record["step"] for record in read_records(path)] == kept


@pytest.mark.parametrize(
    "left", ['{"kind": "step", "step": 9', "{", "\x00\x00\x00", "[1]", "null", '{"step": "9"}', '{"kind": 3}']
)
def test_what_a_kill_has_cut_off_is_dropped_and_never_glued_to_the_next_line(left: str, path: Path) -> None:
    written(path, step(1), step(2))
    with path.open("a") as file:
        file.write(left)
    assert read_records(path) == [step(1), step(2)]
    written(path, step(3), from_step=2)
    assert path.read_text() == "".join(json.dumps(record) + "\n" for record in (step(1), step(2), step(3)))


def test_a_log_that_is_no_text_at_all_is_begun_anew(path: Path) -> None:
    path.write_bytes(bytes(range(128, 256)))
    written(path, step(1))
    assert read_records(path) == [step(1)]


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_what_json_cannot_hold_becomes_null(value: float, path: Path) -> None:
    written(path, {"kind": "epoch", "step": 1, "loss": value, "test": {"nll": value, "ece": 0.5}})
    line = path.read_text()
    assert "Infinity" not in line
    assert "NaN" not in line
    assert json.loads(line) == {"kind": "epoch", "step": 1, "loss": None, "test": {"nll": None, "ece": 0.5}}


def test_tensorboard_gets_every_number_under_its_group(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tensorboard"
    written(path, step(50, alpha=None), step(100, alpha=0.25), tensorboard=folder)
    # Continued from step 50: what came after it is made again, and the old values are hidden.
    epoch = {"kind": "epoch", "step": 100, "epoch": 1, "validation": {"ece": 0.5, "nll": 2.0}}
    written(path, step(100, alpha=0.75), epoch, from_step=50, tensorboard=folder)
    assert scalars(folder) == {
        "step/loss": [(50, pytest.approx(0.05)), (100, pytest.approx(0.025))],
        "step/alpha": [(100, 0.75)],
        "validation/ece": [(100, 0.5)],
        "validation/nll": [(100, 2.0)],
    }


def scalars(folder: Path) -> dict[str, list[tuple[int, Any]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return {name: [(event.step, event.value) for event in events.Scalars(name)] for name in events.Tags()["scalars"]}


def test_without_tensorboard_the_extra_is_named(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ValueError, match=r"pip install 'singleshot\[tensorboard\]'"):
        MetricsLog(path, from_step=0, tensorboard=tmp_path / "tensorboard")
