from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from running import accept, rewrite_state

from singleshot.data import load_dataset
from singleshot.training.checkpoint import Best, TrainingState
from singleshot.training.metrics_log import LogStart, MetricsLog, Record, read_records
from singleshot.training.recipe import Recipe
from singleshot.training.run import CHECKPOINTS, INFO, RECIPE, Run, RunInfo, recipe_differences

TINY = Recipe(dataset="digits", model="resnet18", width=0.03125, image_size=16, mirror=False).resolved()
INFO_OF_DIGITS = RunInfo(tuple("0123456789"), 1, (0.3,), (0.35,), (898, 899), {"torch": "2.13.0"})


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run without a checkpoint."""
    created = Run(tmp_path / "a", TINY, INFO_OF_DIGITS)
    created.create()
    return created


def save(run: Run, step: int, best: Best | None = None, *, seed: int = 0) -> torch.nn.Module:
    """Save a checkpoint with random weights."""
    torch.manual_seed(seed)
    model = run.new_model()
    state = TrainingState(step, epochs_closed=0, best=best)
    run.checkpoints.save(model, torch.optim.SGD(model.parameters()), state, recipe_hash=run.recipe_hash())
    return model


def test_open_returns_what_was_created(run: Run) -> None:
    assert Run.open(run.folder) == run
    assert Run.open(str(run.folder)) == run


def test_info_of_a_data_set() -> None:
    digits = load_dataset("digits", image_size=16)
    info = RunInfo.of(digits, {})
    assert (info.class_names, info.channels) == (tuple("0123456789"), 1)
    assert (info.mean, info.std) == (digits.mean, digits.std)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is not a run: it has no run.json; `singleshot train --output"):
        Run.open(tmp_path)


def test_damaged_info_is_refused(run: Run) -> None:
    path = run.folder / INFO
    content = json.loads(path.read_text())
    changes: list[dict[str, Any]] = [
        {"format": "singleshot.run/2"},
        {"class_names": 3},
        {"channels": "three"},
        {"channels": 3},  # while mean and std have one
        {"mean": [None]},
        {"std": [0.1, 0.2]},
        {"environment": 1},
    ]
    texts = [json.dumps({**content, **change}) for change in changes]
    for text in [*texts, "", "{", "[]", "null", "{}", "[" * 100_000]:
        path.write_text(text)
        with pytest.raises(ValueError, match=r"run\.json is damaged \("):
            Run.open(run.folder)


def test_missing_or_incomplete_recipe_is_refused(run: Run) -> None:
    (run.folder / RECIPE).write_text("epochs: 3")
    with pytest.raises(ValueError, match=r"recipe\.yaml is not the complete recipe of a run: it lacks dataset"):
        Run.open(run.folder)
    (run.folder / RECIPE).unlink()
    with pytest.raises(ValueError, match=r"recipe\.yaml: no such recipe file"):
        Run.open(run.folder)


def test_the_last_and_the_best_checkpoint(run: Run) -> None:
    with pytest.raises(ValueError, match=r"has no checkpoint yet; resume it: `singleshot train --resume"):
        run.checkpoint()
    best = save(run, 5, Best(5, nll=1.0), seed=1)
    last = save(run, 9, Best(5, nll=1.0), seed=2)
    assert (run.checkpoint().step, run.checkpoint("best").step) == (9, 5)
    for which, expected in (("last", last), ("best", best)):
        loaded = run.load_model(which)
        assert not loaded.training
        assert all(torch.equal(value, expected.state_dict()[name]) for name, value in loaded.state_dict().items())


def test_without_validation_images_there_is_no_best(run: Run) -> None:
    save(run, 3)
    with pytest.raises(ValueError, match=r"no best checkpoint: no validation images are held out"):
        run.load_model("best")


def test_impossible_best_checkpoint_is_refused(run: Run) -> None:
    save(run, 3)
    state = next((run.folder / CHECKPOINTS).glob("*/state.json"))
    for best in ({"nll": 1.0}, {"step": "first", "nll": 1.0}, {"step": None, "nll": 1.0}, {"step": 77, "nll": 1.0}):
        rewrite_state(state.parent, best=best)
        with pytest.raises(
            ValueError, match=r"state\.json is missing or damaged|no checkpoint of step 77; available: 3"
        ):
            run.checkpoint("best")


# The recipe file of a run of version 0.1. Its checkpoints contain the checksum of this file.
RECIPE_OF_0_1 = """\
dataset: digits
image_size: 16
train_images: null
validation: 0.1
padding: 4
mirror: false
model: resnet18
width: 0.03125
noise: null
loss: vwci
samples: 5
variance: hellinger
differentiate_alpha: false
beta: 0.1
gamma: 0.1
epsilon: 0.2
focus: 3.0
last_share: 1.0
start_from: null
epochs: 300
batch_size: 64
learning_rate: 0.1
milestones:
- 0.2
- 0.5
decay: 0.2
momentum: 0.9
weight_decay: 0.0005
clip_gradient: null
seed: 0
memory: normal
precision: float32
channels_last: true
compile: false
device: auto
evaluate_every: 1
"""
HASH_OF_0_1 = "0f27ad1e45a366790e804c9287fe46d3e4a1f372fe625de6bcb2d751601bdeb6"


def test_a_run_of_version_0_1_opens_with_its_checkpoint(run: Run) -> None:
    (run.folder / RECIPE).write_text(RECIPE_OF_0_1)
    model = save(run, 3)
    state = next((run.folder / CHECKPOINTS).glob("*/state.json"))
    content = json.loads(state.read_text())
    del content["processor_seconds"]  # added during version 0.1
    state.write_text(json.dumps({**content, "recipe": HASH_OF_0_1}))
    accept(state.parent, "state.json")
    opened = Run.open(run.folder)
    assert (opened.recipe.measure, opened.recipe.label_smoothing) == ("hellinger", 0.2)
    loaded = opened.load_model().state_dict()
    assert all(torch.equal(value, loaded[name]) for name, value in model.state_dict().items())
    (run.folder / RECIPE).write_text(RECIPE_OF_0_1.replace("seed: 0", "seed: 1"))
    with pytest.raises(ValueError, match="belongs to another recipe"):
        Run.open(run.folder).checkpoint()


def test_the_normalization_is_that_of_the_training_images(run: Run) -> None:
    images = torch.full((1, 1, 16, 16), 255, dtype=torch.uint8)
    assert torch.allclose(run.normalization()(images), torch.full((1, 1, 16, 16), (1 - 0.3) / 0.35))


def test_differences_name_the_field_and_both_values() -> None:
    assert recipe_differences(TINY, TINY) == []
    other = replace(TINY, epochs=3, loss="ci")
    assert recipe_differences(TINY, other) == ["loss is 'vwci', not 'ci'", "epochs is 300, not 3"]


def step(number: int, **values: Any) -> Record:
    return {"kind": "step", "step": number, "loss": 2.5 / number, **values}


def written(path: Path, *records: Record, from_step: int = 0, tensorboard: Path | None = None) -> None:
    log = MetricsLog(path, TrainingState(from_step, 99), tensorboard=tensorboard)
    for record in records:
        log.add(record)
    log.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


def test_each_record_is_a_line_of_json_that_is_flushed(path: Path) -> None:
    log = MetricsLog(path, TrainingState(0, 0))
    assert read_records(path) == []
    records = [step(50, alpha=None), step(100, alpha=0.1), {"kind": "epoch", "step": 100, "test": {"ece": 1 / 3}}]
    for count, record in enumerate(records, start=1):
        log.add(record)
        assert [json.loads(line) for line in path.read_text().splitlines()] == records[:count]  # before it is closed
    log.close()
    assert read_records(path) == records


def test_records_after_the_checkpoint_are_dropped_on_reopening(path: Path) -> None:
    records = [step(50), step(100), {"kind": "epoch", "step": 100}, step(150)]
    for from_step in (0, 99, 100, 149, 150, 10_000):
        path.unlink(missing_ok=True)
        written(path, *records)
        again = step(from_step + 1)
        written(path, again, from_step=from_step)
        assert read_records(path) == [*(record for record in records if record["step"] <= from_step), again]


def test_an_epoch_that_the_checkpoint_has_not_closed_is_recorded_again(path: Path) -> None:
    for epochs_closed, kept in [(0, [50]), (1, [50, 100])]:
        path.unlink(missing_ok=True)
        written(path, step(50), {"kind": "epoch", "step": 100, "epoch": 1})
        MetricsLog(path, TrainingState(100, epochs_closed)).close()
        assert [record["step"] for record in read_records(path)] == kept


def test_a_line_cut_off_by_a_kill_is_dropped(path: Path) -> None:
    for left in ('{"kind": "step", "step": 9', "{", "\x00\x00\x00", "[1]", "null", '{"step": "9"}', "[" * 100_000):
        path.unlink(missing_ok=True)
        written(path, step(1), step(2))
        with path.open("a") as file:
            file.write(left)
        assert read_records(path) == [step(1), step(2)], left
        written(path, step(3), from_step=2)
        assert [json.loads(line) for line in path.read_text().splitlines()] == [step(1), step(2), step(3)]


def epoch(number: int) -> Record:
    return {"kind": "epoch", "step": 20 * number, "epoch": number}


@pytest.mark.parametrize(
    ("harm", "message", "gap"),
    [
        (lambda lines: [], "lacks epochs 1, 2, 3 and steps 50", {"epochs": [1, 2, 3], "steps": [50]}),
        (None, "lacks epochs 1, 2, 3 and steps 50", {"epochs": [1, 2, 3], "steps": [50]}),
        (
            lambda lines: [lines[0], b"\x00" + lines[1], *lines[2:]],
            "1 lines are damaged and it lacks epochs 2",
            {"epochs": [2]},
        ),
        (lambda lines: lines[:2] + lines[3:], "lacks steps 50", {"steps": [50]}),
        (lambda lines: [*lines, b"half\n"], "1 lines are damaged;", {}),
        (lambda lines: [b"half\n", *lines[:-1], lines[-1].rstrip()], "1 lines are damaged;", {}),
    ],
)
def test_a_damaged_log_is_reported_and_the_gap_is_marked(
    path: Path, harm: Callable[[list[bytes]], list[bytes]] | None, message: str, gap: dict[str, list[int]]
) -> None:
    records = [epoch(1), epoch(2), step(50), epoch(3)]
    written(path, *records)
    if harm is None:
        path.unlink()
    else:
        path.write_bytes(b"".join(harm(path.read_bytes().splitlines(keepends=True))))
    left = read_records(path)
    state, start = TrainingState(60, epochs_closed=3), LogStart(0, 0)
    with pytest.warns(UserWarning, match=message):
        MetricsLog(path, state, start=start).close()
    *kept, marked = read_records(path)
    assert kept == left
    assert marked == {"kind": "gap", "step": 60, "damaged_lines": int("damaged" in message), **gap}
    MetricsLog(path, state, start=start).close()  # the gap is reported once
    assert read_records(path) == [*kept, marked]


def test_the_epochs_of_the_run_before_are_not_missed(path: Path) -> None:
    written(path, epoch(3))
    MetricsLog(path, TrainingState(60, epochs_closed=3), start=LogStart(50, 2)).close()
    assert read_records(path) == [epoch(3)]


def test_a_binary_log_is_replaced(path: Path) -> None:
    path.write_bytes(bytes(range(128, 256)) + b"\n")
    with pytest.warns(UserWarning, match="1 lines are damaged"):
        written(path, step(1))
    assert read_records(path)[1:] == [step(1)]


def test_numbers_that_json_lacks_become_null(path: Path) -> None:
    for value in (float("inf"), float("-inf"), float("nan")):
        path.unlink(missing_ok=True)
        written(path, {"kind": "epoch", "step": 1, "loss": value, "test": {"nll": value, "ece": 0.5}})
        assert json.loads(path.read_text()) == {
            "kind": "epoch", "step": 1, "loss": None, "test": {"nll": None, "ece": 0.5},
        }  # fmt: skip


def test_tensorboard_gets_every_number_under_its_group(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tensorboard"
    written(path, step(50, alpha=None), step(100, alpha=0.25), tensorboard=folder)
    # Resumed from step 50: later steps are logged again, and their old values are hidden.
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
        MetricsLog(path, TrainingState(0, 0), tensorboard=tmp_path / "tensorboard")


def test_a_value_out_of_range_in_a_stored_recipe_names_the_file(run: Run) -> None:
    text = (run.folder / RECIPE).read_text()
    (run.folder / RECIPE).write_text(text.replace("momentum: 0.9", "momentum: 1.9"))
    with pytest.raises(ValueError, match=r"recipe\.yaml: momentum must lie in \[0, 1\), got 1\.9"):
        Run.open(run.folder)
