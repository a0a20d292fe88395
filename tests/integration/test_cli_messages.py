"""Messages and exit codes of commands that end early."""

from __future__ import annotations

import os
import signal
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from singleshot.cli import main as cli
from singleshot.cli.main import main
from singleshot.cli.predict import predict
from singleshot.common.errors import StoppedError
from singleshot.predictions import Predictions
from singleshot.training.inference import Prediction


class FailingCommands:
    """Replaces the parsed commands; running one raises an error."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def cli(self, **_: object) -> None:
        raise self.error


def exit_code(command: str, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> int | str | None:
    """The exit code of a command that raises an error."""
    monkeypatch.setattr(cli, "commands", lambda args: FailingCommands(error))
    with pytest.raises(SystemExit) as exit_:
        main(command.split())
    return exit_.value.code


def test_exit_codes_and_whether_a_repeated_command_resumes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    resumable = ("quickstart", "train --dataset digits", "data fetch cifar10", "reproduce fig2 --jobs 1")
    others = ("evaluate a.npz", "calibrate a.npz", "export a", "predict a cat.png", "data check digits", "report a")
    for command in (*resumable, *others):
        again, kept = ("resume", "; finished work is kept") if command in resumable else ("start from scratch", "")
        errors: list[tuple[BaseException, int, str]] = [
            (KeyboardInterrupt(), 130, f"interrupted; repeat the command to {again}"),
            (OSError(28, "No space left on device"), 1, f"[Errno 28] No space left on device{kept}"),
            (StoppedError("stopped", exit_code=143), 143, "stopped"),
            (ValueError("wrong value"), 2, "wrong value"),
            (TypeError("wrong type"), 2, "wrong type"),
        ]
        for error, code, message in errors:
            assert exit_code(command, error, monkeypatch) == code
            assert capsys.readouterr().err == f"singleshot: {message}\n"


def test_control_characters_in_messages_are_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    evil, shown = "a\x1b[2J\r\x9b.npz", r"a\x1b[2J\r\x9b.npz"
    with pytest.raises(SystemExit) as exit_:
        main(["evaluate", evil])
    assert exit_.value.code == 2
    assert capsys.readouterr().err == f"singleshot: {shown}: no such file\n"
    assert exit_code("evaluate a.npz", ValueError(f"{evil}:\n  too long"), monkeypatch) == 2
    assert capsys.readouterr().err == f"singleshot: {shown}:\n  too long\n"
    assert exit_code("evaluate a.npz", FileNotFoundError(2, "No such file", evil), monkeypatch) == 1
    assert "\x1b" not in capsys.readouterr().err


def test_control_characters_in_warnings_are_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    logits = np.random.default_rng(0).normal(size=(40, 3))
    np.savez("few\x1b[2J.npz", logits=logits, labels=np.arange(40) % 3)
    np.savez("test.npz", logits=logits + 1, labels=np.arange(40) % 3)

    def warn(fitted: Predictions, _: object) -> None:
        warnings.warn(f"{fitted.path} is strange", stacklevel=2)

    monkeypatch.setattr("singleshot.evaluation.calibrating.check_same_classes", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        main(["calibrate", "test.npz", "--fit-on", "few\x1b[2J.npz", "-o", "fixed\x1b.npz"])
    said = capsys.readouterr()
    assert said.err.startswith(r"singleshot: few\x1b[2J.npz is strange")
    assert r"Predictions: fixed\x1b.npz" in said.out
    assert "\x1b" not in said.err + said.out


def test_predict_escapes_names_of_classes_and_images(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [Prediction("b\x07.png", "cat\x1b]0;mine\x07", 0.9, False), Prediction("c.png", "dog\nfish", 0.7, False)]
    monkeypatch.setattr("singleshot.training.inference.predict", lambda *_, **__: (found, ["d\n\x1b.png is no image"]))
    predict(Path("run"), (Path("b"), Path("c")), skip_unreadable=True)
    said = capsys.readouterr()
    assert [line.split() for line in said.out.splitlines()] == [
        ["image", "class", "confidence"],
        [r"b\x07.png", r"cat\x1b]0;mine\x07", "0.900"],
        ["c.png", r"dog\nfish", "0.700"],
    ]
    assert said.err == "1 left out; the first: d\\n\\x1b.png is no image\n"


def test_a_value_out_of_range_in_a_recipe_file_names_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.yaml").write_text("learning_rate: -1\nepochs: 5\n")
    cases = [
        ([], f"singleshot: {tmp_path / 'mine.yaml'}: learning_rate must be finite and above 0, got -1.0"),
        (["--learning-rate", "-2"], "singleshot: learning_rate must be finite and above 0, got -2.0"),
        (["--learning-rate", "0.1", "--epochs", "0"], "singleshot: epochs must be at least 1, got 0"),
    ]
    for flags, message in cases:
        with pytest.raises(SystemExit) as exit_:
            main(["train", "--recipe", str(tmp_path / "mine.yaml"), *flags])
        assert exit_.value.code == 2
        assert capsys.readouterr().err.startswith(message)


@pytest.mark.parametrize("tuned", ["strength: auto", "loss: adafocal"])
def test_a_tuned_loss_without_validation_is_refused_in_a_recipe_file_as_in_a_flag(
    tuned: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, option = tmp_path / "mine.yaml", "--" + tuned.replace(":", "")
    for share, flags, where in (
        ("validation: 0\n", [], f"`validation: 0` in {file}"),
        ("validation: 0.2\n", ["--validation", "0"], "--validation 0"),
        ("", ["--validation", "0"], "--validation 0"),
    ):
        file.write_text(f"dataset: absent\n{tuned}\n{share}")
        with pytest.raises(SystemExit) as exit_:
            main(["train", "--recipe", str(file), *flags])
        assert exit_.value.code == 2
        expected = f"singleshot: {option} tunes on held-out images: leave out {where}, or choose a share"
        assert capsys.readouterr().err.startswith(expected)


def test_long_messages_are_truncated(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("train", ValueError("x" * 100_000), monkeypatch) == 2
    assert capsys.readouterr().err.endswith("xx… (100,000 characters)\n")


def test_a_long_value_is_not_echoed_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 5000
    (tmp_path / "mine.yaml").write_text(f"{long}: 1\n")
    np.savez(
        tmp_path / "a.npz", probs=np.full((2, 2), 0.5), labels=np.array([long[:1000], "a"]), class_names=["a", "b"]
    )
    for command in (
        ["train", "--recipe", str(tmp_path / "mine.yaml")],
        ["train", "--dataset", "digits", "--model", long, "--output", str(tmp_path / "run")],
        ["data", "fetch", long],
        ["evaluate", str(tmp_path / "a.npz")],
    ):
        with pytest.raises(SystemExit):
            main(command)
        assert len(capsys.readouterr().err) < 1500, command[:2]  # less than what is cut off from every message


class Signalled:
    """Replaces the parsed commands; running one receives SIGTERM, as while a data set is loaded."""

    def cli(self, **_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)


def test_sigterm_before_the_training_loop_ends_with_a_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(cli, "commands", lambda args: Signalled())
    for command, again in (("train", "resume"), ("evaluate", "start from scratch")):
        with pytest.raises(SystemExit) as exit_:
            main([command])
        assert exit_.value.code == 143
        assert capsys.readouterr().err == f"singleshot: terminated by SIGTERM; repeat the command to {again}\n"
        assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("trian", "unknown command 'trian'; did you mean 'train'? choose one of quickstart, train, "),
        ("evaluate a.npz --accuracy 95", "accuracy must lie in (0, 1), got 95.0; for 95 %, set 0.95"),
        ("evaluate a.npz --accuracy 0", "accuracy must lie in (0, 1), got 0.0\n"),
        ("evaluate a.npz --figure a.gif", "--figure a.gif must end in .png, .pdf or .svg"),
    ],
)
def test_usage_errors_say_what_to_write(command: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(command.split())
    assert exit_.value.code == 2
    assert capsys.readouterr().err.startswith(f"singleshot: {message}")
