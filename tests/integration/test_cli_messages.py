"""How a command that ends early says so: the truth about what it keeps, in text that a terminal does not obey."""

from __future__ import annotations

import warnings
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from singleshot.cli.main import main
from singleshot.cli.predict import predict
from singleshot.training.inference import Prediction

WORK = {
    "evaluate a.npz": "predictions.read_predictions",
    "calibrate a.npz --fit-on b.npz": "predictions.read_predictions",
    "export a -o a.onnx": "training.export_run",
    "predict a cat.png": "training.prediction.predict",
    "data check digits": "data.check.check_dataset",
    "quickstart": "experiments.quickstart_grid.run_grid",
    "train --dataset digits": "training.runner.train",
    "data fetch cifar10": "data.fetch.fetch_dataset",
    "reproduce fig2 --dataset digits --jobs 1": "experiments.grid.run_grid",
}
"""Commands, and the function each of them calls for its work."""
CONTINUING = (
    "quickstart",
    "train --dataset digits",
    "data fetch cifar10",
    "reproduce fig2 --dataset digits --jobs 1",
)


def ended(command: str, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> int | str | None:
    """The exit code of a command whose work raises an error."""

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(f"singleshot.{WORK[command]}", fail)
    with pytest.raises(SystemExit) as exit_:
        main(command.split())
    return exit_.value.code


@pytest.mark.parametrize("command", list(WORK))
def test_what_is_kept_is_said_of_the_commands_that_keep_it(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    continues = command in CONTINUING
    again = "the same command " + ("continues where it stopped" if continues else "starts anew")
    kept = "; what was finished before is kept" if continues else ""
    for error, code, said in [
        (KeyboardInterrupt(), 130, f"interrupted; {again}"),
        (BrokenProcessPool(), 1, f"a worker process died, perhaps for want of memory; {again}"),
        (OSError(28, "No space left on device"), 1, f"[Errno 28] No space left on device{kept}"),
    ]:
        assert ended(command, error, monkeypatch) == code
        assert capsys.readouterr().err == f"singleshot: {said}\n"


def test_a_name_in_a_message_does_not_speak_to_the_terminal_and_lines_stay_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    evil, shown = "a\x1b[2J\r\x9b.npz", r"a\x1b[2J\r\x9b.npz"
    with pytest.raises(SystemExit):
        main(["evaluate", evil])
    assert capsys.readouterr().err == f"singleshot: {shown}: no such file\n"
    assert ended("evaluate a.npz", ValueError(f"{evil}:\n  too long"), monkeypatch) == 2
    assert capsys.readouterr().err == f"singleshot: {shown}:\n  too long\n"
    assert ended("evaluate a.npz", FileNotFoundError(2, "No such file", evil), monkeypatch) == 1
    assert "\x1b" not in capsys.readouterr().err


def test_a_name_in_a_warning_does_not_speak_to_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    logits = np.random.default_rng(0).normal(size=(40, 3))
    np.savez("few\x1b[2J.npz", logits=logits, labels=np.arange(40) % 2)
    np.savez("test.npz", logits=logits, labels=np.arange(40) % 3)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        main(["calibrate", "test.npz", "--fit-on", "few\x1b[2J.npz", "-o", "fixed\x1b.npz"])
    said = capsys.readouterr()
    assert said.err.startswith(r"singleshot: few\x1b[2J.npz has no examples of 1 of 3 classes")
    assert r"Predictions: fixed\x1b.npz" in said.out
    assert "\x1b" not in said.err + said.out


def test_predict_spells_out_what_a_class_or_an_image_is_called(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [Prediction("b\x07.png", "cat\x1b]0;mine\x07", 0.9, False), Prediction("c.png", "dog\nfish", 0.7, False)]
    monkeypatch.setattr("singleshot.training.inference.predict", lambda *_, **__: (found, ["d\x1b.png is no image"]))
    predict(Path("run"), (Path("b"), Path("c")), skip_unreadable=True)
    said = capsys.readouterr()
    assert [line.split() for line in said.out.splitlines()] == [
        ["image", "class", "confidence"],
        [r"b\x07.png", r"cat\x1b]0;mine\x07", "0.900"],
        ["c.png", r"dog\nfish", "0.700"],
    ]
    assert said.err == "1 left out; the first: d\\x1b.png is no image\n"
