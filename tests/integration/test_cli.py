"""The command line in a separate process: output and exit codes."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import singleshot as ss
from singleshot.cli.main import main

COMMAND = [sys.executable, "-m", "singleshot"]


def singleshot(*args: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *args],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_help_has_an_example_and_succeeds(tmp_path: Path) -> None:
    for args in (["--help"], ["quickstart", "--help"]):
        shown = singleshot(*args, cwd=tmp_path)
        assert shown.returncode == 0
        assert "singleshot quickstart" in shown.stdout
    assert singleshot("--version", cwd=tmp_path).stdout == f"singleshot {ss.__version__}\n"


def test_no_command_shows_commands_that_parse(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([])
    assert exit_.value.code == 2
    shown = capsys.readouterr().err
    suggested = re.findall(r"^  singleshot (\w+)(?: \S+)* {2,}\w", shown, re.M)
    assert suggested == ["quickstart", "evaluate", "train"]
    for command in suggested:
        with pytest.raises(SystemExit) as exit_:
            main([command, "--help"])
        assert exit_.value.code == 0, command


def test_the_page_of_the_command_line_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"• (\w+)", capsys.readouterr().out)
    page = Path(__file__).parents[2] / "docs" / "command-line.md"
    assert re.findall(r"^\| `(\w+)` \|", page.read_text("utf-8").partition("\n## ")[0], re.M) == commands


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_and_choices(tmp_path: Path) -> None:
    script = tmp_path / "completion.bash"
    singleshot("--tyro-write-completion", "bash", str(script), cwd=tmp_path)
    for words, completion in [("eva", "evaluate"), ("data ", "fetch"), ("train --loss vw", "vwci")]:
        code = f"""
        source completion.bash
        COMP_WORDS=(singleshot {shlex.join(words.split(" "))})
        COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
        _tyro_singleshot
        printf '%s\n' "${{COMPREPLY[@]}}"
        """
        found = subprocess.run(["bash", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert completion in found.stdout.split(), words
    for shell, named in [("powershell", "powershell"), ("tcsh", "shtab")]:  # tyro's tcsh needs a package of its own
        unknown = singleshot("--tyro-print-completion", shell, cwd=tmp_path)
        assert (unknown.returncode, unknown.stdout) == (2, ""), shell
        assert named in unknown.stderr
        assert "Traceback" not in unknown.stderr


def test_mistakes_are_one_message_and_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "occupied").write_text("a file where a folder should be")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "results.json").write_text("{")
    for args, message in [
        ("quickstart --seeds 0", "--seeds must lie in [1, 1000], got 0"),
        ("quickstart --jobs -1", "--jobs must be at least 1"),
        ("quickstart --output occupied", "--output occupied cannot be written to"),
        ("quickstart --output old", "results.json holds no quickstart results"),
        ("quickstart --seeds " + "9" * 30, "--seeds must lie in"),
        ("quickstart --seeds many", "many"),
        ("quickstart --seed 3", "--seeds"),
        ("quickstrat", "quickstart"),
        ("", "quickstart"),
    ]:
        with pytest.raises(SystemExit) as refused:
            main(args.split())
        assert refused.value.code == 2, args
        written = capsys.readouterr()
        assert message in written.err, args
        assert written.out == "", args
    refused_process = singleshot("quickstart", "--seeds", "0", cwd=tmp_path)
    assert (refused_process.returncode, refused_process.stdout) == (2, "")
    assert refused_process.stderr == "singleshot: --seeds must lie in [1, 1000], got 0\n"


def test_an_interrupt_while_workers_start_shows_no_traceback(tmp_path: Path) -> None:
    process = subprocess.Popen([*COMMAND, "quickstart"], cwd=tmp_path, stderr=subprocess.PIPE, start_new_session=True)
    until((tmp_path / "quickstart" / ".lock").exists)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until(lambda: len(children.read_text().split()) >= 2)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert b"Traceback" not in errors


def test_quickstart_is_interrupted_resumed_and_restarted(tmp_path: Path) -> None:
    output = tmp_path / "quickstart"
    process = subprocess.Popen(
        [*COMMAND, "quickstart", "--seeds", "1", "--jobs", "1"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )

    def results() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (output / "results").glob("*/*/*.json")}

    until(lambda: bool(results()))
    os.killpg(process.pid, signal.SIGSTOP)
    second = singleshot("quickstart", cwd=tmp_path)
    assert (second.returncode, "is in use by another singleshot process" in second.stderr) == (2, True)
    for number in (signal.SIGINT, signal.SIGCONT):  # as Ctrl-C, to every process of the terminal
        os.killpg(process.pid, number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted; repeat the command to resume" in errors
    assert "Traceback" not in errors
    kept = results()
    assert 0 < len(kept) < 6

    resumed = singleshot("quickstart", "--seeds", "1", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert resumed.returncode == 0, resumed.stderr
    assert f"{len(kept)} of 6 runs were already finished" in resumed.stderr
    assert "mean ? standard error over 1 seed" in resumed.stdout  # a terminal without Unicode
    assert "The page:     quickstart/report.html" in resumed.stdout
    assert (output / "reliability.png").stat().st_size > 10_000
    assert len(results()) == 6
    assert kept.items() <= results().items()
    about = r"seed 0: 899 examples, 10 classes, logits; accuracy \d\d\.\d %; 95 % intervals from 1,000 resamples"
    assert re.search(about, (output / "report.html").read_text(encoding="utf-8"))
    assert len(list((output / "predictions").rglob("*.npz"))) == 6

    as_json = singleshot("quickstart", "--seeds", "1", "--json", cwd=tmp_path)
    assert "The page:     quickstart/report.html" in as_json.stderr
    numbers = json.loads(as_json.stdout)
    assert len(numbers) == 6
    for method in numbers.values():
        assert method["metrics"]["ece"]["seeds"] == 1
        assert 0 < method["metrics"]["ece"]["mean"] < 1
        assert method["pooled"]["count"] == 899

    before = results()
    restarted = singleshot("quickstart", "--seeds", "1", "--restart", cwd=tmp_path)
    assert restarted.returncode == 0, restarted.stderr
    assert "already finished" not in restarted.stderr
    assert results().keys() == before.keys()
    assert all(results()[name] != before[name] for name in before)  # other training times


def test_a_page_that_cannot_be_written_does_not_hide_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "quickstart" / "report.html"
    page.mkdir(parents=True)
    main(["quickstart", "--seeds", "1"])
    written = capsys.readouterr()
    assert "VWCI total variation" in written.out
    assert "The page" not in written.out
    assert "singleshot: no page was written (IsADirectoryError: " in written.err
    assert "`singleshot quickstart --output quickstart --seeds 1` tries again" in written.err

    page.rmdir()
    predictions = tmp_path / "quickstart" / "predictions" / "seed-0" / "vwci.npz"
    predictions.write_bytes(b"damaged")
    main(["quickstart", "--seeds", "1", "--json"])
    written = capsys.readouterr()
    assert len(json.loads(written.out)) == 6
    assert "no page was written" in written.err
    assert "vwci.npz" in written.err

    predictions.unlink()  # as for imported results
    main(["quickstart", "--seeds", "1"])
    assert "No page:      the predictions of some runs were not kept; use --restart" in capsys.readouterr().out
