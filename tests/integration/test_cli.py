"""The command line as a user meets it: another process, its output and its exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "singleshot"]


def singleshot(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *args], cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("args", [["--help"], ["quickstart", "--help"]])
def test_help_has_an_example_and_succeeds(args: list[str], tmp_path: Path) -> None:
    shown = singleshot(*args, cwd=tmp_path)
    assert shown.returncode == 0
    assert "singleshot quickstart" in shown.stdout


def test_version(tmp_path: Path) -> None:
    assert singleshot("--version", cwd=tmp_path).stdout.startswith("singleshot 0.")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["quickstart", "--seeds", "0"], "--seeds must lie in [1, 1000], got 0"),
        (["quickstart", "--jobs", "-1"], "--jobs must be at least 1"),
        (["quickstart", "--output", "occupied"], "--output occupied cannot be written to"),
        (["quickstart", "--output", "/proc"], "--output /proc cannot be written to"),
        (["quickstart", "--seeds", "9" * 30], "--seeds must lie in"),
        (["quickstart", "--seeds", "many"], "many"),
        (["quickstart", "--seed", "3"], "--seeds"),
        (["quickstrat"], "quickstart"),
        ([], "quickstart"),
    ],
)
def test_mistakes_are_one_message_and_exit_code_2(args: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "occupied").write_text("a file where a folder should be")
    refused = singleshot(*args, cwd=tmp_path)
    assert refused.returncode == 2
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr
    assert refused.stdout == ""


def test_an_interrupt_while_workers_start_shows_no_traceback(tmp_path: Path) -> None:
    process = subprocess.Popen([*COMMAND, "quickstart"], cwd=tmp_path, stderr=subprocess.PIPE, start_new_session=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "quickstart" / ".lock").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    while len(_children(process.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert b"Traceback" not in errors


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_a_terminal_without_unicode_still_gets_its_table(encoding: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    shown = subprocess.run(
        [*COMMAND, "quickstart", "--seeds", "1"], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    assert b"VWCI" in shown.stdout


def test_quickstart_is_interrupted_continued_and_restarted(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "quickstart", "--seeds", "2"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    results = tmp_path / "quickstart" / "results.json"
    deadline = time.monotonic() + 120
    while not results.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    second = singleshot("quickstart", cwd=tmp_path)  # in a folder that is in use
    assert second.returncode == 2
    assert "is in use by another singleshot process" in second.stderr
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does, to every process of the terminal
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted; the same command continues" in errors
    assert "Traceback" not in errors
    kept = json.loads(results.read_text())["runs"]
    assert 0 < len(kept) < 12

    continued = singleshot("quickstart", "--seeds", "2", cwd=tmp_path)
    assert continued.returncode == 0, continued.stderr
    assert f"{len(kept)} of 12 runs were finished before" in continued.stderr
    assert "mean ± standard error over 2 seeds" in continued.stdout
    assert (tmp_path / "quickstart" / "reliability.png").stat().st_size > 10_000
    runs = json.loads(results.read_text())["runs"]
    assert len(runs) == 12
    assert all(run in runs for run in kept)
    assert "The page:     quickstart/report.html" in continued.stdout
    page = (tmp_path / "quickstart" / "report.html").read_text(encoding="utf-8")
    told = r"seed 0: 899 examples, 10 classes, logits; \d\d\.\d % right; 95 % intervals from 1,000 resamples"
    assert re.search(told, page)
    assert len(list((tmp_path / "quickstart" / "predictions").rglob("*.npz"))) == 2 * 6

    as_json = singleshot("quickstart", "--seeds", "2", "--json", cwd=tmp_path)
    assert "The page:     quickstart/report.html" in as_json.stderr
    numbers = json.loads(as_json.stdout)
    assert len(numbers) == 6
    for method in numbers.values():
        assert method["metrics"]["ece"]["seeds"] == 2
        assert 0 < method["metrics"]["ece"]["mean"] < 1
        assert method["pooled"]["count"] == 2 * 899

    results.write_text("{")
    refused = singleshot("quickstart", "--seeds", "2", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--restart" in refused.stderr


def test_a_page_that_cannot_be_written_costs_no_number(tmp_path: Path) -> None:
    page = tmp_path / "quickstart" / "report.html"
    page.mkdir(parents=True)
    is_a_folder = singleshot("quickstart", "--seeds", "1", cwd=tmp_path)
    assert is_a_folder.returncode == 0
    assert "VWCI total variation" in is_a_folder.stdout
    assert "The page" not in is_a_folder.stdout
    assert "singleshot: no page was written (IsADirectoryError: " in is_a_folder.stderr
    assert "`singleshot quickstart --output quickstart --seeds 1` tries again" in is_a_folder.stderr

    page.rmdir()
    predictions = tmp_path / "quickstart" / "predictions" / "seed-0" / "vwci.npz"
    predictions.write_bytes(b"damaged")
    damaged = singleshot("quickstart", "--seeds", "1", "--json", cwd=tmp_path)
    assert damaged.returncode == 0
    assert len(json.loads(damaged.stdout)) == 6
    assert "no page was written" in damaged.stderr
    assert "vwci.npz" in damaged.stderr

    predictions.unlink()  # as results of earlier versions have it
    without = singleshot("quickstart", "--seeds", "1", cwd=tmp_path)
    assert without.returncode == 0, without.stderr
    assert "No page:      the predictions of some runs were not kept; --restart" in without.stdout
