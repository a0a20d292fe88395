"""What to do next: actions by verdict and expected gain, and commands that can be pasted into a shell."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path

import pytest

from singleshot.evaluation.gain import Gain
from singleshot.evaluation.verdict import BADGES, Level, Verdict
from singleshot.reporting.page.next_step import TRUST, fix_of_file, fix_of_run, next_step

FIX = partial(fix_of_file, Path("a b.npz"), {"kind": "logits", "labels": None})


def gain(fixed: float, method: str = "temperature", nll: float = 0.9) -> Gain:
    return Gain(method, 2.0, 100, "fitted", (0.1, 0.1 * (1 - fixed)), (1.0, nll), "Calibrated", fixed)


@pytest.mark.parametrize("level", BADGES)
def test_only_scores_that_are_off_need_a_fix(level: Level) -> None:
    step = next_step(Verdict(level, "found", p_value=0.5), None, FIX)
    assert step["trust"] == TRUST[level]
    assert bool(step["commands"]) == (level in {"fair", "bad"})


@pytest.mark.parametrize(
    ("fixed", "method", "action"),
    [
        (0.8, "temperature", "One temperature fixes most of this:"),
        (0.3, "temperature", "One temperature fixes a part of this:"),
        (0.8, "isotonic", "One temperature fixes too little of this, but isotonic regression fixes most of it:"),
        (0.3, "vector", "One temperature fixes too little of this, but vector scaling fixes a part of it:"),
    ],
)
def test_the_method_that_helps_is_advised(fixed: float, method: str, action: str) -> None:
    step = next_step(Verdict("bad", "found"), gain(fixed, method), FIX)
    assert step["action"] == action
    flag = "" if method == "temperature" else f" --method {method}"
    command = f"singleshot calibrate 'a b.npz' --fit-on held-out.npz -o calibrated.npz{flag} --kind logits"
    assert step["commands"] == [command]
    assert step["gain"]["fixed"] == fixed


@pytest.mark.parametrize(("fixed", "nll"), [(0.1, 0.9), (-0.5, 0.9), (0.8, 1.1)])
def test_nothing_that_does_not_help_is_advised(fixed: float, nll: float) -> None:
    step = next_step(Verdict("bad", "found"), gain(fixed, nll=nll), FIX)
    assert step["action"].startswith("None of temperature, vector, isotonic and histogram helped on ")
    assert "examples that it was not fitted on" in step["action"]
    assert step["commands"] == []
    assert step["gain"]["fixed"] == fixed


def test_unclear_verdicts_and_training_images() -> None:
    assert "about 1,234 are needed" in next_step(Verdict("unclear", "found", needed=1234), None, FIX)["action"]
    assert "hundreds are needed" in next_step(Verdict("unclear", "found"), None, FIX)["action"]
    step = next_step(Verdict("good", "found"), None, FIX, of_training=True)
    assert "say nothing about new images" in step["trust"]
    assert "--split test" in step["action"]


def test_the_commands_of_a_run() -> None:
    options = {"split": "test", "weights": "best", "data_root": None, "device": "auto"}
    with_images = fix_of_run(Path("runs/a"), options, "temperature", holds_out=True)
    assert with_images.needs is None
    assert [shlex.split(command)[1] for command in with_images.commands] == [
        "evaluate", "evaluate", "calibrate", "export",
    ]  # fmt: skip
    assert with_images.commands[0] == (
        "singleshot evaluate runs/a --split validation --predictions validation.npz --weights best"
    )
    assert with_images.commands[3].endswith("--temperature temperature.json -o model.onnx --weights best")
    without = fix_of_run(Path("runs/a"), options, "vector", holds_out=False)
    assert without.needs is not None
    assert without.commands[1] == (
        "singleshot calibrate test.npz --fit-on held-out.npz --save-scaling vector.json --method vector"
    )
    assert len(without.commands) == 2


def test_without_the_scores_of_all_classes_no_temperature_is_advised() -> None:
    (command,) = next_step(Verdict("bad", "found"), None, FIX, method="isotonic")["commands"]
    assert "--method isotonic" in command


def test_the_command_for_a_csv_file_writes_one() -> None:
    (command,) = fix_of_file(Path("a.csv"), {}, "temperature").commands
    assert command == "singleshot calibrate a.csv --fit-on held-out.csv -o calibrated.csv"
