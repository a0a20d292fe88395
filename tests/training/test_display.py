from __future__ import annotations

import io
import re
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from singleshot.metrics import Calibration
from singleshot.self_tuning import SelfTunedStrength
from singleshot.training import display
from singleshot.training.display import Display, EpochEvaluation, tuning_summary
from singleshot.training.recipe import Recipe
from singleshot.training.schedule import Schedule
from singleshot.training.step import StepResult

SCHEDULE = Schedule(Recipe(epochs=300, batch_size=64), 6_400)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The current time, which a test sets."""
    now = [1000.0]
    monkeypatch.setattr(display, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def evaluation(epoch: int, *, is_best: bool = True) -> EpochEvaluation:
    calibration = Calibration(bins=20)
    calibration.update(probs=torch.tensor([[0.9, 0.1], [0.9, 0.1]]), labels=torch.tensor([0, 1]))
    means: dict[str, float | None] = {"loss": 1.25, "alpha": 0.125, "train_accuracy": 0.5}
    return EpochEvaluation(epoch, means, "validation", calibration.compute(), is_best)


def terminal(width: int = 80, **environment: str) -> Console:
    return Console(
        file=io.StringIO(), force_terminal=True, width=width, height=25, _environ={"TERM": "xterm", **environment}
    )


def written_to(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def steps(shown: Display, clock: list[float], first: int, last: int, *, seconds: float, alpha: float | None) -> None:
    for step in range(first, last + 1):
        clock[0] += seconds
        shown.on_step(step, StepResult(loss=1.25, alpha=alpha, accuracy=0.5, stop=False), learning_rate=0.1)


def test_plain_lines_without_a_terminal(clock: list[float]) -> None:
    console = Console(file=io.StringIO())
    shown = Display(console)
    shown.on_start(SCHEDULE, 0)
    steps(shown, clock, 1, 100, seconds=0.5, alpha=0.125)
    shown.on_evaluation(evaluation(1))
    steps(shown, clock, 101, 130, seconds=0.5, alpha=None)
    shown.on_evaluation(evaluation(2, is_best=False))
    steps(shown, clock, 131, 190, seconds=0.5, alpha=None)
    shown.on_end()
    lines = written_to(console).splitlines()
    # 29,940 steps of half a second are left after step 60.
    assert lines[0] == "epoch 1/300, step 60: loss 1.250  α 0.125  acc 0.500  128 img/s  4:09:30 left"
    unseen = "validation acc 0.500 ECE 0.400"
    assert lines[1] == (
        f"epoch 1/300: loss 1.250  α 0.125  acc 0.500  {unseen} NLL 1.204  128 img/s  4:09:10 left  best so far"
    )
    assert lines[2].endswith("left")  # not the best epoch
    # Thirty seconds after the last line; a single pass has no α.
    assert lines[3] == f"epoch 2/300, step 190: loss 1.250  acc 0.500  {unseen}  128 img/s  4:08:25 left"
    assert len(lines) == 4
    assert "\x1b" not in written_to(console)


def test_a_terminal_shows_all_numbers(clock: list[float]) -> None:
    console = terminal()
    shown = Display(console)
    shown.on_start(SCHEDULE, 0)
    steps(shown, clock, 1, 100, seconds=0.5, alpha=0.125)
    shown.on_evaluation(evaluation(1))
    lasting = len(written_to(console))
    steps(shown, clock, 101, 101, seconds=0.5, alpha=0.125)
    shown.on_end()
    screen = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written_to(console)[lasting:])
    bar, numbers = [line.rstrip() for line in screen.splitlines() if line.strip()][-2:]
    assert re.fullmatch(r"epoch 2/300 \S+ 128 img/s  4:09:10 left", bar)
    assert numbers == "loss 1.250  α 0.125  acc 0.500  validation acc 0.500 ECE 0.400"
    assert max(len(bar), len(numbers)) <= 80


def test_a_narrow_terminal_wraps_the_numbers(clock: list[float]) -> None:
    console = terminal(width=40)
    shown = Display(console)
    shown.on_start(SCHEDULE, 0)
    shown.on_evaluation(evaluation(1))
    lasting = len(written_to(console))
    steps(shown, clock, 1, 1, seconds=1, alpha=0.125)
    shown.on_end()
    for number in ("1.250", "0.125", "ECE 0.400"):
        assert number in written_to(console)[lasting:]


def test_a_dumb_terminal_gets_plain_lines(clock: list[float]) -> None:
    console = terminal(TERM="dumb")
    shown = Display(console)
    shown.on_start(SCHEDULE, 0)
    steps(shown, clock, 1, 61, seconds=0.5, alpha=None)
    shown.on_end()
    assert written_to(console).splitlines() == ["epoch 1/300, step 60: loss 1.250  acc 0.500  128 img/s  4:09:30 left"]


def test_a_finished_run_is_not_resumed() -> None:
    console = Console(file=io.StringIO(), width=200)
    shown = Display(console)
    shown.on_start(SCHEDULE, 30_000)
    shown.on_end()
    assert written_to(console).splitlines() == ["nothing left to train: all 30000 steps are done"]


@pytest.mark.parametrize("console", [Console(file=io.StringIO(), width=200), terminal(200)])
def test_a_run_resumed_before_an_evaluation_has_no_averages_yet(console: Console) -> None:
    shown = Display(console)
    shown.on_start(SCHEDULE, 100)
    shown.on_evaluation(evaluation(1))
    shown.on_end()
    assert "resuming after step 100 of 30000" in written_to(console)
    unseen = "epoch 1/300: loss 1.250 α 0.125 acc 0.500 validation acc 0.500 ECE 0.400 NLL 1.204 best so far"
    assert unseen in " ".join(written_to(console).split())


def test_a_new_run_that_starts_late_is_not_resumed() -> None:
    console = Console(file=io.StringIO())
    schedule = Schedule(Recipe(epochs=10, batch_size=64, last_share=0.2, start_from="runs/base"), 640)
    shown = Display(console)
    shown.on_start(schedule, schedule.first_step)
    shown.on_end()
    assert written_to(console) == ""


def test_the_speed_is_that_of_the_recent_steps(clock: list[float]) -> None:
    console = Console(file=io.StringIO())
    shown = Display(console)
    shown.on_start(SCHEDULE, 0)
    steps(shown, clock, 1, 1, seconds=0, alpha=None)
    shown.on_evaluation(evaluation(1, is_best=False))
    steps(shown, clock, 2, 51, seconds=10, alpha=None)
    steps(shown, clock, 52, 101, seconds=0.1, alpha=None)
    shown.on_evaluation(evaluation(1, is_best=False))
    lines = written_to(console).splitlines()
    assert lines[0].endswith("0:00:00 left")
    assert lines[-1].endswith("640 img/s  0:49:50 left")


def test_the_epoch_is_that_of_the_last_step(clock: list[float]) -> None:
    for step, epoch in [(1, 1), (100, 1), (101, 2), (29_999, 300), (30_000, 300)]:
        console = Console(file=io.StringIO())
        shown = Display(console)
        shown.on_start(SCHEDULE, 0)
        steps(shown, clock, step, step, seconds=60, alpha=None)
        assert written_to(console).startswith(f"epoch {epoch}/300, step {step}: ")


def test_the_outcome_of_tuning_is_printed_once() -> None:
    console = Console(file=io.StringIO(), width=200)
    schedule = Schedule(Recipe(loss="vwci", strength="auto", epochs=10, batch_size=10).resolved(), 100)
    shown = Display(console)
    shown.on_start(schedule, 0)
    strength = SelfTunedStrength("vwci")
    calibrated = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]] * 5), torch.tensor([0, 1, 1, 1] * 5)
    strength.update(logits=calibrated[0], labels=calibrated[1])
    shown.on_strength(60, strength)
    assert written_to(console) == ""
    shown.on_strength(80, strength)
    assert "as far as they can tell; from here on they are trained on as well" in written_to(console)
    strength.update(logits=20 * calibrated[0], labels=calibrated[1])
    shown.on_strength(80, strength)
    assert f"need temperature {strength.temperature:.3g}, which differs" in written_to(console)
    assert "by more than chance; train longer; from here on" in written_to(console)
    underconfident = SelfTunedStrength("vwci")
    underconfident.update(logits=0.1 * calibrated[0].repeat(20, 1), labels=calibrated[1].repeat(20))
    assert "underconfident, perhaps also with cross-entropy alone; train longer" in tuning_summary(
        underconfident, given_back=True
    )
    assert f"export with --temperature {strength.temperature:.3g}" in tuning_summary(strength, given_back=False)
    strength.update(logits=calibrated[0], labels=1 - calibrated[1])
    strength.update(logits=20 * calibrated[0], labels=1 - calibrated[0].argmax(1))
    shown.on_strength(80, strength)
    assert "no better than chance, or always right" in written_to(console)
    shown.on_evaluation(evaluation(9))
    assert f"strength {float(strength):.3g}" in written_to(console)
    shown.on_end()
