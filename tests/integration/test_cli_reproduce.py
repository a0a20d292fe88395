"""``singleshot reproduce`` as a user meets it, on digits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "singleshot", "reproduce"]
DIGITS = ["--dataset", "digits", "--model", "resnet18", "--seeds", "1", "--jobs", "1"]


def reproduce(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *args], cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


def test_a_figure_is_planned_made_looked_at_and_not_made_twice(tmp_path: Path) -> None:
    planned = reproduce("fig2", *DIGITS, "--dry-run", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    assert "digits resnet18, Baseline, seed 0" in planned.stdout
    assert "1 runs, 1 to do: about" in planned.stdout
    assert "label smoothing" not in planned.stdout
    assert not (tmp_path / "reproduce").exists()

    made = reproduce("fig2", *DIGITS, "--json", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "1 of 1: digits resnet18, Baseline, seed 0: accuracy" in made.stderr
    numbers = json.loads(made.stdout)
    assert list(numbers) == ["fig2-digits"]
    folder = tmp_path / "reproduce"
    assert (folder / "figures" / "fig2-digits.png").stat().st_size > 10_000
    assert json.loads((folder / "figures" / "fig2-digits.json").read_text()) == numbers["fig2-digits"]
    assert f"The page: {Path('reproduce') / 'report.html'}" in made.stderr
    assert "Baseline" in (folder / "report.html").read_text(encoding="utf-8")
    (result,) = (folder / "results").rglob("*.json")
    written = result.stat().st_mtime_ns

    again = reproduce("fig2", *DIGITS, "--json", cwd=tmp_path)
    assert "1 of 1 runs were finished before" in again.stderr
    assert again.stdout == made.stdout
    assert f"The page: {Path('reproduce') / 'report.html'}" in again.stderr
    assert result.stat().st_mtime_ns == written

    status = reproduce("status", cwd=tmp_path)
    assert (status.returncode, status.stdout.splitlines()[-1]) == (0, "1 done of 1 runs")
    as_json = json.loads(reproduce("status", "--json", cwd=tmp_path).stdout)
    assert (as_json["states"], as_json["runs"][0]["state"]) == ({"done": 1}, "done")
    planned_again = json.loads(reproduce("fig2", *DIGITS, "--dry-run", "--json", cwd=tmp_path).stdout)
    assert (planned_again["seconds"], planned_again["runs"][0]["done"]) == (0, True)

    other = folder / "results" / "other.json"
    other.write_text('{"format": "singleshot.result/99"}')
    skipped = reproduce("fig2", *DIGITS, cwd=tmp_path)
    assert skipped.returncode == 0
    assert (
        f"Skipped {Path('reproduce') / 'results' / 'other.json'}: its format is 'singleshot.result/99'"
        in skipped.stderr
    )


def test_an_interrupted_grid_goes_on_where_it_was(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "table3", *DIGITS], cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    results = tmp_path / "reproduce" / "results"
    deadline = time.monotonic() + 120
    while not list(results.rglob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    second = reproduce("table3", *DIGITS, cwd=tmp_path)
    assert (second.returncode, "is in use by another singleshot process" in second.stderr) == (2, True)
    status = json.loads(reproduce("status", "--json", cwd=tmp_path).stdout)
    assert status["states"]["done"] >= 1
    assert status["states"]["waiting"] >= 1
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert "interrupted; the same command continues" in errors
    assert "Traceback" not in errors
    kept = {path.name: path.stat().st_mtime_ns for path in results.rglob("*.json")}

    continued = reproduce("fig2", *DIGITS, cwd=tmp_path)  # its only run is the first of the table
    assert continued.returncode == 0, continued.stderr
    assert "1 of 1 runs were finished before" in continued.stderr
    assert {path.name: path.stat().st_mtime_ns for path in results.rglob("*.json")} == kept


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["table9"], "table9"),
        (["table1", "--seeds", "0"], "--seeds must lie in [1, 1000], got 0"),
        (["table1", "--jobs", "-2"], "--jobs must be at least 1"),
        (["table1", "--model", "resnet50"], "model='resnet50' is unknown; choose one of densenet40_12"),
        (["table1", "--dataset", "cifar100", "--data-root", "nowhere"], "singleshot data fetch cifar100"),
        (["table1", "--dataset", "no_such_set"], "no_such_set"),
        (["table1", "--engine", "dask"], "--engine dask and --scheduler tcp://HOST:PORT go together"),
        (["table1", "--scheduler", "tcp://here:1"], "--engine dask and --scheduler tcp://HOST:PORT go together"),
        (["status"], "reproduce holds no grid: there is no grid.json"),
        (["table1", "--dataset", "digits", "--output", "occupied"], "--output occupied cannot be written to"),
    ],
)
def test_mistakes_are_one_message_and_exit_code_2(args: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "occupied").write_text("a file where a folder should be")
    refused = reproduce(*args, cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr
