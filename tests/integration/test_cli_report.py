"""``singleshot report``, end to end."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from integration.overconfident import run, shown_json, write_overconfident
from singleshot.cli.evaluate import evaluate
from singleshot.cli.main import main
from singleshot.cli.report import report
from singleshot.data import load_dataset
from singleshot.evaluation.evaluation import Evaluation
from singleshot.training import Run


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_overconfident(tmp_path)
    return tmp_path


def test_a_page_about_two_files(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(report, "test.npz", "val.npz", "-o", "new/page.html", "--title", "Both", "--replicates", "20")
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("test.npz: Miscalibrated. Overconfident by ")
    assert said[-1] == "Report:  new/page.html"
    text = (place / "new" / "page.html").read_text(encoding="utf-8")
    assert "<title>Both</title>" in text
    assert str(place) not in text
    assert [path.name for path in (place / "new").iterdir()] == ["page.html"]


def test_mistakes_are_reported_before_anything_is_evaluated_or_written(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("singleshot.reporting.page.write_page", lambda *_, **__: pytest.fail("evaluated"))
    (place / "folder.html").mkdir()
    before = sorted(place.rglob("*"))
    for args, message in {
        (): "give a file of predictions or a run",
        ("test.npz", "-o", "page.pdf"): "--output page.pdf must end in .html",
        ("test.npz", "-o", "folder.html"): "--output folder.html is a folder",
        ("test.npz", "--replicates", "1"): "replicates must be a whole number of at least 2",
        ("test.npz", "--bins", "0"): "bins must be a whole number of at least 1",
        ("test.npz", "--bins", "1201"): "--bins must lie in [1, 1200], got 1201",
        ("gone",): "gone does not exist; give a file of predictions or a run folder",
        ("test.npz", "--kind", "probs"): "test.npz",
        ("test.npz", "--dataset", "digits", "--split", "validation"): "--dataset has only test and train images",
        ("test.npz", "gone.npz"): "gone.npz does not exist",
        ("test.npz", "folder.html"): "folder.html",
        ("test.npz", "-o", "val.npz/page.html"): "val.npz/page.html cannot be written to (Not a directory",
        ("test.npz", "-o", "/proc/page.html"): "/proc/page.html cannot be written to (",
    }.items():
        with pytest.raises(ValueError, match=re.escape(message)):
            run(report, *args)
    assert sorted(place.rglob("*")) == before
    with pytest.raises(SystemExit) as exit_info:
        main(["report", "gone.npz"])
    assert exit_info.value.code == 2
    assert capsys.readouterr().err.startswith("singleshot: gone.npz does not exist; ")


def test_the_same_source_twice_has_two_names(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(report, "test.npz", "test.npz", "--json", "--replicates", "20")
    found: Any = shown_json(capsys)
    assert [model["name"] for model in found["models"]] == ["test.npz", "test.npz (2)"]
    assert found["comparisons"][0]["differences"][0]["difference"] == 0


def test_many_examples_are_resampled_in_groups(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("singleshot.evaluation.evaluation.MAX_EXACT", 1400)
    run(report, "test.npz", "test.npz", "--json", "--replicates", "20")
    found: Any = shown_json(capsys)
    assert "from 20 resamples of 1,000 groups of examples" in found["models"][0]["about"]
    run(evaluate, "test.npz", "test.npz", "--json", "--replicates", "20")
    evaluated: Any = shown_json(capsys)
    for name, shown in found["models"][0]["metrics"].items():
        interval = evaluated["evaluations"][0]["intervals"][name]
        assert (shown["low"], shown["high"]) == (interval["low"], interval["high"]), name
    compared = {one["metric"]: one for one in found["comparisons"][0]["differences"]}
    for name, one in evaluated["comparisons"][0]["differences"].items():
        assert (compared[name]["low"], compared[name]["high"]) == (one["low"], one["high"])


def test_many_examples_are_compared_only_on_request(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("evaluation.evaluation", "reporting.page.model_report"):
        monkeypatch.setattr(f"singleshot.{module}.MAX_RESAMPLED", 1400)
    run(report, "test.npz", "test.npz", "--json")
    found: Any = shown_json(capsys)
    assert "no intervals by default above 1,400 examples" in found["models"][0]["about"]
    assert found["models"][0]["metrics"]["ece"]["low"] is None
    assert "are not compared: more than 1,400 examples" in found["comparisons"][0]["why"]
    run(report, "test.npz", "test.npz", "--json", "--replicates", "20")
    assert len(shown_json(capsys)["comparisons"][0]["differences"]) == 4


def test_files_for_a_known_dataset_show_its_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    labels = load_dataset("digits").test.labels.numpy()
    logits = np.random.default_rng(0).normal(size=(len(labels), 10)).astype(np.float32)
    np.savez("p.npz", logits=logits, labels=labels)
    run(report, "p.npz", "--json", "--replicates", "0")
    (plain,) = shown_json(capsys)["models"]
    assert {entry["image"] for entry in plain["inspection"]["mistakes"]} == {None}
    first = plain["inspection"]["mistakes"][0]
    assert str(labels[first["index"]]) == first["label"]
    assert str(logits[first["index"]].argmax()) == first["predicted"] != first["label"]
    run(report, "p.npz", "--dataset", "digits", "--json", "--replicates", "0")
    found = shown_json(capsys)
    (pictured,) = found["models"]
    assert all(entry["image"].startswith("data:image/png;base64,") for entry in pictured["inspection"]["correct"])
    for part, entries in plain["inspection"].items():
        assert [entry["index"] for entry in pictured["inspection"][part]] == [entry["index"] for entry in entries]
    assert found["command"] == "singleshot report p.npz -o report.html --replicates 0 --dataset digits"
    np.savez("other.npz", logits=logits[::-1], labels=labels[::-1])
    with pytest.raises(ValueError, match=r"other.npz does not contain predictions for these images: its 899 labels"):
        run(report, "other.npz", "--dataset", "digits", "--replicates", "0")


def test_array_names_are_options(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with np.load("test.npz") as file:
        np.savez("odd.npz", s=file["logits"], y=file["labels"])
    run(report, "odd.npz", "--scores", "s", "--kind", "logits", "--labels", "y", "--json", "--replicates", "0")
    model = shown_json(capsys)["models"][0]
    assert model["command"] == "singleshot evaluate odd.npz --kind logits --scores s --labels y --replicates 0"
    assert model["classes_by_gap"][0]["class"] in set("0123")


def test_help_loads_neither_torch_nor_jinja2() -> None:
    code = (
        "import sys, contextlib\nfrom singleshot.cli.main import main\n"
        "with contextlib.suppress(SystemExit): main(['report', '--help'])\n"
        "print([name for name in ('torch', 'jinja2', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "singleshot report runs/a predictions.npz -o report.html" in " ".join(done.stdout.split())
    assert done.stdout.splitlines()[-1] == "[]"
    assert json.loads(done.stdout.splitlines()[-1]) == []


TRAIN = (
    "train",
    "--dataset",
    "digits",
    "--width",
    "0.0625",
    "--train-images",
    "50",
    "--epochs",
    "1",
    "--strength",
    "1",
)


def test_training_ends_with_a_page_and_advice_from_held_out_images(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def advise(evaluation: Evaluation, *, measure: str) -> str:
        assert measure == "bhattacharyya"
        asked.append(evaluation.result.count)
        return "Try another."

    monkeypatch.setattr("singleshot.evaluation.advice.advise", advise)
    main([*TRAIN, "--validation", "0.2", "--output", "held"])
    *_, page, advice = capsys.readouterr().out.splitlines()
    assert "held/report.html (validation images)" in page
    assert advice == "Try another."
    text = (place / "held" / "report.html").read_text(encoding="utf-8")
    assert "10 validation images, one forward pass each, after step 1;" in text
    main([*TRAIN, "--validation", "0", "--output", "test"])  # test images are never used for advice
    assert "Try another." not in capsys.readouterr().out
    main([*TRAIN, "--loss", "cross_entropy", "--validation", "0.2", "--output", "ce"])  # has no measure
    assert "Try another." not in capsys.readouterr().out
    assert asked == [10]
    main([*TRAIN[:-2], "--epochs", "8", "--validation", "0.2", "--output", "tuned"])  # all images are trained on
    shown = capsys.readouterr().out
    assert "tuned/report.html (test images)" in shown
    assert "Try another." not in shown
    assert Run.open(place / "tuned").recipe.strength == "auto"
    with pytest.raises(SystemExit, match="2"):
        main(["evaluate", "tuned", "--weights", "best"])
    assert "Traceback" not in capsys.readouterr().err
    main([*TRAIN, "--output", "quiet", "--no-report"])
    assert "report.html" not in capsys.readouterr().out
    assert not (place / "quiet" / "report.html").exists()


def test_a_page_that_cannot_be_written_does_not_fail_the_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "a" / "report.html").mkdir(parents=True)
    main([*TRAIN, "--validation", "0.2", "--output", "a", "--data-root", "my data"])
    error = capsys.readouterr().err
    assert "IsADirectoryError: " in error
    again = "singleshot report a -o a/report.html --split validation --data-root 'my data'"
    assert f"`{again}`" in error
    assert (place / "a" / "run.json").is_file()
    (place / "a" / "report.html").rmdir()
    main(shlex.split(again)[1:])
    assert "10 validation images" in (place / "a" / "report.html").read_text(encoding="utf-8")
