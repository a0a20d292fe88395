"""``singleshot reproduce`` on digits, as a user runs it."""

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

from fake_results import BASE, fake, full_store
from singleshot.cli.main import main
from singleshot.grid.store import ResultStore
from singleshot.paper import methods
from singleshot.paper.methods import base_recipe, job_of
from singleshot.paper.regimes import REGIMES
from singleshot.training.run import INFO

DIGITS = ["--dataset", "digits", "--model", "resnet18", "--seeds", "1", "--jobs", "1"]


OF_DIGITS = base_recipe("small", dataset="digits", model="resnet18")


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


def test_a_figure_is_planned_measured_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in {"epochs": 2, "width": 0.0625, "image_size": 8}.items():
        monkeypatch.setitem(methods._DIGITS, name, value)

    def reproduce(*args: str) -> tuple[str, str]:
        main(["reproduce", *args])
        return capsys.readouterr()

    planned, _ = reproduce("fig2", *DIGITS, "--dry-run")
    assert "digits resnet18, Baseline, seed 0" in planned
    assert "1 runs, 1 to do: about" in planned
    assert "label smoothing" not in planned
    assert not (tmp_path / "reproduce").exists()

    made, messages = reproduce("fig2", *DIGITS, "--json")
    assert "1 of 1: digits resnet18, Baseline, seed 0: accuracy" in messages
    numbers = json.loads(made)
    assert list(numbers) == ["fig2-digits-resnet18"]
    folder = tmp_path / "reproduce"
    assert (folder / "figures" / "fig2-digits-resnet18.png").stat().st_size > 10_000
    assert json.loads((folder / "figures" / "fig2-digits-resnet18.json").read_text()) == numbers["fig2-digits-resnet18"]
    assert f"The page: {Path('reproduce') / 'report.html'}" in messages
    assert "Baseline" in (folder / "report.html").read_text(encoding="utf-8")
    (result,) = (folder / "results").rglob("*.json")
    written = result.stat().st_mtime_ns

    again, messages = reproduce("fig2", *DIGITS, "--json")
    assert "1 of 1 runs were already finished" in messages
    assert again == made
    assert f"The page: {Path('reproduce') / 'report.html'}" in messages
    assert result.stat().st_mtime_ns == written

    assert reproduce("status")[0].splitlines()[-1] == "1 done of 1 runs"
    status = json.loads(reproduce("status", "--json")[0])
    assert (status["states"], status["runs"][0]["state"]) == ({"done": 1}, "done")
    plan = json.loads(reproduce("fig2", *DIGITS, "--dry-run", "--json")[0])
    assert (plan["seconds"], plan["runs"][0]["done"]) == (0, True)

    (folder / "results" / "other.json").write_text('{"format": "singleshot.result/99"}')
    _, messages = reproduce("fig2", *DIGITS)
    skipped = Path("reproduce") / "results" / "other.json"
    assert f"Skipped {skipped}: its format is 'singleshot.result/99'" in messages


SMALLER = """
from singleshot.cli.main import main
from singleshot.paper import methods

methods._DIGITS.update(width=0.0625, epochs=4, image_size=8)
main()
"""
SMALL_RUNS = [sys.executable, "-c", SMALLER, "reproduce"]
"""The command with runs that take a second."""


def finished(folder: Path) -> dict[str, bytes]:
    """The results on disk, by file name."""
    return {path.name: path.read_bytes() for path in folder.glob("*/*/*.json")}


def test_an_interrupted_grid_is_resumed(tmp_path: Path) -> None:
    command = [*SMALL_RUNS, "fig4", *DIGITS]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True)
    results = tmp_path / "reproduce" / "results"
    deadline = time.monotonic() + 120
    while len(finished(results)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGSTOP)  # while the next commands run
    second = run(*command, cwd=tmp_path)
    assert (second.returncode, "is in use by another singleshot process" in second.stderr) == (2, True)
    status = json.loads(run(*SMALL_RUNS, "status", "--json", cwd=tmp_path).stdout)
    assert status["states"]["done"] >= 2
    assert status["states"]["waiting"] >= 1
    for number in (signal.SIGINT, signal.SIGCONT):
        os.killpg(process.pid, number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert "interrupted; repeat the command to resume" in errors
    assert "Traceback" not in errors
    kept = finished(results)
    assert 2 <= len(kept) < 5

    resumed = run(*command, cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert f"{len(kept)} of " in resumed.stderr
    whole = finished(results)
    assert len(whole) == 5
    assert {name: whole[name] for name in kept} == kept
    made = re.findall(r"^\d+ of \d+: (.*): accuracy", resumed.stderr, re.MULTILINE)
    assert len(made) == len(set(made)) == 5 - len(kept)  # finished runs are not repeated
    assert not {*made} & {*re.findall(r"^\d+ of \d+: (.*): accuracy", errors, re.MULTILINE)}
    assert (tmp_path / "reproduce" / "figures" / "fig4-digits-resnet18.png").exists()
    assert (tmp_path / "reproduce" / "report.html").exists()


def test_finished_results_do_not_need_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ResultStore.open(tmp_path / "results")
    for result in full_store("table3", 1).results.values():
        store.add(result)
    where = ["--output", str(tmp_path), "--data-root", str(tmp_path / "nowhere")]
    main(["reproduce", "table3", "--dataset", "cifar100", "--model", "resnet18", "--seeds", "1", *where])
    said = capsys.readouterr()
    assert "VWCI*" in said.out
    assert "has no finished run." in said.err
    tables = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "tables").iterdir()}
    assert set(tables) == {f"table3-cifar100-resnet18{suffix}" for suffix in (".txt", ".md", ".tex", ".csv")}
    assert all("VWCI" in text or "vwci" in text for text in tables.values())

    store.paths[job_of(BASE, "focal", 0).key].unlink()
    with pytest.raises(SystemExit):
        main(["reproduce", "table3", "--dataset", "cifar100", "--model", "resnet18", "--seeds", "1", *where])
    assert "singleshot data fetch cifar100" in capsys.readouterr().err


def test_results_of_other_images_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ResultStore.open(tmp_path / "results")
    store.add(fake(OF_DIGITS, "baseline", 0))
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", "table3", *DIGITS, "--output", str(tmp_path)])
    assert stopped.value.code == 2
    (path,) = store.paths.values()
    assert f"{path} was measured on other images of digits" in capsys.readouterr().err


def test_failed_runs_are_reported_and_their_figures_not_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / job_of(OF_DIGITS, "baseline", 0).key).write_text("a file where a folder should be")
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", "fig2", *DIGITS, "--output", str(tmp_path)])
    assert stopped.value.code == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "Not drawn: fig2-digits-resnet18: fig2 has nothing to draw" in said.err
    assert "1 runs failed; repeat the command to retry them:\n  digits resnet18, Baseline, seed 0: " in said.err


def test_mistakes_are_one_message_and_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "occupied").write_text("a file where a folder should be")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / INFO).touch()
    for args, message in [
        (["table9"], "table9"),
        (["table1", "--seeds", "0"], "--seeds must lie in [1, 1000], got 0"),
        (["table1", "--jobs", "-2"], "--jobs must be at least 1"),
        (["table1", "--model", "resnet50"], "model='resnet50' is unknown; choose one of densenet40_12"),
        (["table1", "--dataset", "cifar100", "--data-root", "nowhere"], "singleshot data fetch cifar100"),
        (["table1", "--dataset", "digit"], "unknown dataset 'digit'; did you mean 'digits'?"),
        (["table1", "--dataset", "no/such/set"], "no/such/set does not exist"),
        (["table1", "--dataset", ""], "dataset must be a name or a folder"),
        (["table1", "--dataset", "digits", "--output", "run"], "--output run is the folder of a single run"),
        (["status", "--output", "occupied"], "occupied holds no grid"),
        (["table1", "--engine", "dask"], "--engine dask and --scheduler tcp://HOST:PORT go together"),
        (["table1", "--scheduler", "tcp://here:1"], "--engine dask and --scheduler tcp://HOST:PORT go together"),
        (["status"], "reproduce holds no grid: grid.json is missing"),
        (["table1", "--dataset", "digits", "--output", "occupied"], "--output occupied cannot be written to"),
    ]:
        with pytest.raises(SystemExit) as refused:
            main(["reproduce", *args])
        assert refused.value.code == 2, args
        written = capsys.readouterr()
        assert message in written.err, args
        assert written.out == "", args


def test_stored_results_are_verified_to_the_bit(tmp_path: Path) -> None:
    measured = run(*SMALL_RUNS, "fig2", *DIGITS, cwd=tmp_path)
    assert measured.returncode == 0, measured.stderr
    same = run(*SMALL_RUNS, "verify", "--jobs", "1", cwd=tmp_path)
    assert same.returncode == 0, same.stderr
    assert re.search(r"same  digits resnet18, cross_entropy, seed 0 \(", same.stdout)

    (file,) = (tmp_path / "reproduce" / "results").rglob("*.json")
    content = json.loads(file.read_text())
    content["rescaled"]["temperature"] *= 1 + 1e-12
    file.write_text(json.dumps(content))
    changed = run(*SMALL_RUNS, "verify", "--results", str(file), "--json", cwd=tmp_path)  # the repeated run is kept
    assert changed.returncode == 1
    assert "1 of 1 result could not be reproduced" in changed.stderr
    ((field,),) = json.loads(changed.stdout)["different"].values()
    assert field.startswith("rescaled.temperature: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "has no results to verify"),
        ("{", "restore it, or remove it"),
        ("[]", "its format is None"),
        ("1", "its format is"),
    ],
)
def test_folders_without_valid_results_are_not_verified(
    content: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "a.json").write_text(content)
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", "verify", "--results", str(tmp_path), "--output", str(tmp_path / "out")])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["reproduce", "verify", "--results", str(tmp_path / "missing")])
    assert "missing does not exist" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["reproduce", "fig2", "--results", str(tmp_path)])
    assert "--results is only for" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["reproduce", "verify", "--results", str(tmp_path), "--regime", "ten-classes"])
    assert "--regime is only for" in capsys.readouterr().err


@pytest.mark.parametrize("experiment", ["status", "verify"])
@pytest.mark.parametrize("flags", [["--dry-run"], ["--dataset", "digits"], ["--model", "vgg16"], ["--seeds", "5"]])
def test_flags_that_would_be_ignored_are_refused(
    experiment: str, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", experiment, *flags])
    assert stopped.value.code == 2
    assert f"{flags[0]} is not for `singleshot reproduce {experiment}`; leave it out" in capsys.readouterr().err


def test_help_names_every_regime(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["reproduce", "--help"])
    written = " ".join(capsys.readouterr().out.replace("│", "").split())
    assert all(regime in written for regime in REGIMES)
