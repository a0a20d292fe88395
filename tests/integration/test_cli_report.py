"""``singleshot report`` as a user runs it."""

from __future__ import annotations

import json
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
from singleshot.metrics.examples import Examples
from singleshot.training import Recipe, train


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_overconfident(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "a"
    train(Recipe(dataset="digits", model="resnet18", width=0.125, train_images=100, validation=0.1, epochs=2), folder)
    return folder


def test_files_become_a_page(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(report, "test.npz", "val.npz", "-o", "new/page.html", "--title", "Both", "--replicates", "20")
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("test.npz: Overconfident by ")
    assert said[-1] == "The page:  new/page.html"
    text = (place / "new" / "page.html").read_text(encoding="utf-8")
    assert "<title>Both</title>" in text
    assert str(place) not in text
    assert [path.name for path in (place / "new").iterdir()] == ["page.html"]


def test_a_run_has_its_images_passes_and_training(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = trained.parent / "page.html"
    run(report, str(trained), "-o", str(page), "--json", "--replicates", "20")
    model = shown_json(capsys)["models"][0]
    run(evaluate, str(trained), "--json", "--replicates", "20")
    expected = shown_json(capsys)
    for name, found in model["metrics"].items():
        assert found["estimate"] == expected[name]
        assert found["low"] == expected["intervals"][name]["low"]
    assert (model["name"], model["count"]) == ("a", expected["count"])
    assert "test images, one forward pass each, after step " in model["about"]
    for part in ("mistakes", "hits"):
        assert 0 < len(model["gallery"][part]) <= 24
        assert all(entry["image"].startswith("data:image/png;base64,") for entry in model["gallery"][part])
    assert model["passes"]["samples"] == 5
    assert sum(model["passes"]["count"]) == model["count"]
    assert [entry["epoch"] for entry in model["training"]] == [1, 2]
    assert {entry["split"] for entry in model["training"]} == {"validation"}
    assert all(entry["nll"] > 0 and entry["loss"] > 0 for entry in model["training"])
    assert model["recipe"]["model"] == "resnet18"
    assert "torch" in model["environment"]
    assert page.stat().st_size < 2_000_000
    run(report, str(trained), "-o", str(page), "--json", "--replicates", "0", "--split", "validation")
    held_out = shown_json(capsys)["models"][0]
    assert held_out["count"] == 10
    assert held_out["command"].endswith("--split validation --replicates 0")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "name a file of predictions or a run"),
        (("test.npz", "-o", "page.pdf"), "--output page.pdf must end in .html"),
        (("test.npz", "-o", "folder.html"), "--output folder.html is a folder"),
        (("test.npz", "--replicates", "1"), "--replicates must be at least 2"),
        (("gone.npz",), "gone.npz does not exist"),
        (("gone",), "gone does not exist: name a file of predictions, or the folder of a run"),
        (("test.npz", "--kind", "probs"), "test.npz"),
        (("test.npz", "--dataset", "digits", "--split", "validation"), "--dataset has test and train images"),
        (("test.npz", "gone.npz"), "gone.npz does not exist"),
        (("test.npz", "folder.html"), "folder.html holds no run"),
        (("test.npz", "-o", "val.npz/page.html"), "--output val.npz/page.html cannot be written: Not a directory"),
        (("test.npz", "-o", "/proc/page.html"), "--output /proc/page.html cannot be written: "),
    ],
)
def test_mistakes_are_said_before_anything_is_measured_or_written(
    args: tuple[str, ...], message: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("singleshot.report.page.subject.measure", lambda *_: pytest.fail("measured"))
    (place / "folder.html").mkdir()
    before = sorted(place.rglob("*"))
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        run(report, *args)
    assert sorted(place.rglob("*")) == before


def test_a_mistake_exits_with_2(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["report", "gone.npz"])
    assert exit_info.value.code == 2
    assert capsys.readouterr().err == (
        "singleshot: gone.npz does not exist: name a file of predictions, or the folder of a run\n"
    )


def test_the_same_source_twice_has_two_names(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(report, "test.npz", "test.npz", "--json", "--replicates", "20")
    found: Any = shown_json(capsys)
    assert [model["name"] for model in found["models"]] == ["test.npz", "test.npz (2)"]
    assert found["comparisons"][0]["differences"][0]["difference"] == 0


def test_many_examples_are_resampled_in_groups(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("singleshot.evaluation.core.MAX_EXACT", 1400)
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


def test_what_evaluate_does_not_compare_unless_asked_the_page_does_not_either(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("evaluation.core", "evaluation.comparison", "report.page.subject"):
        monkeypatch.setattr(f"singleshot.{module}.MAX_RESAMPLED", 1400)
    run(report, "test.npz", "test.npz", "--json")
    found: Any = shown_json(capsys)
    assert "no intervals above 1,400 examples unless asked for" in found["models"][0]["about"]
    assert found["models"][0]["metrics"]["ece"]["low"] is None
    assert "are not compared: more than 1,400 examples" in found["comparisons"][0]["why"]
    run(report, "test.npz", "test.npz", "--json", "--replicates", "20")
    assert len(shown_json(capsys)["comparisons"][0]["differences"]) == 4


def test_files_of_a_known_data_set_show_its_images(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(evaluate, str(trained), "--predictions", "p.npz", "--replicates", "0")
    capsys.readouterr()
    run(report, "p.npz", "--json", "--replicates", "0")
    (plain,) = shown_json(capsys)["models"]
    assert {entry["image"] for entry in plain["gallery"]["mistakes"]} == {None}
    with np.load("p.npz") as file:
        first, logits, labels = plain["gallery"]["mistakes"][0], file["logits"], file["labels"]
    assert str(labels[first["index"]]) == first["label"]
    assert str(logits[first["index"]].argmax()) == first["predicted"] != first["label"]
    run(report, "p.npz", "--dataset", "digits", "--json", "--replicates", "0")
    found = shown_json(capsys)
    (pictured,) = found["models"]
    assert all(entry["image"].startswith("data:image/png;base64,") for entry in pictured["gallery"]["hits"])
    assert [entry["index"] for entry in pictured["gallery"]["hits"]] == [
        entry["index"] for entry in plain["gallery"]["hits"]
    ]
    assert found["command"] == "singleshot report p.npz -o report.html --replicates 0 --dataset digits"
    np.savez("other.npz", logits=logits[::-1], labels=labels[::-1])
    with pytest.raises(ValueError, match=r"other.npz does not predict these images: its 899 labels"):
        run(report, "other.npz", "--dataset", "digits", "--replicates", "0")


def test_files_without_names_are_told_of_as_in_evaluate(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_training_ends_with_a_page(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = ["--dataset", "digits", "--width", "0.125", "--train-images", "50", "--epochs", "1"]
    main(["train", *recipe, "--validation", "0.2", "--output", "held"])
    assert "The page:  held/report.html (validation images)" in capsys.readouterr().out
    text = (place / "held" / "report.html").read_text(encoding="utf-8")
    assert "10 validation images, one forward pass each, after step 1;" in text
    main(["train", *recipe, "--output", "quiet", "--no-report"])
    assert "The page" not in capsys.readouterr().out
    assert not (place / "quiet" / "report.html").exists()


def test_advice_comes_from_held_out_images_and_never_from_test_images(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def advise(recipe: Recipe, held_out: Examples) -> str:
        asked.append(len(held_out))
        return "Try another."

    monkeypatch.setattr("singleshot.evaluation.verdict.measure_advice", advise)
    shared = ["train", "--dataset", "digits", "--width", "0.0625", "--train-images", "100", "--epochs", "1"]
    main([*shared, "--validation", "0.3", "--output", "a"])
    assert capsys.readouterr().out.splitlines()[-1] == "Try another."
    main([*shared, "--validation", "0", "--output", "b"])
    assert "Try another." not in capsys.readouterr().out
    assert asked == [30]


def test_a_page_that_cannot_be_written_fails_no_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "a" / "report.html").mkdir(parents=True)
    recipe = ["--dataset", "digits", "--width", "0.125", "--train-images", "50", "--epochs", "1", "--validation", "0.2"]
    main(["train", *recipe, "--output", "a", "--data-root", "my data"])
    shown = capsys.readouterr()
    assert "The run:  a" in shown.out
    assert "singleshot: no page was written (IsADirectoryError: " in shown.err
    again = "singleshot report a -o a/report.html --split validation --data-root 'my data'"
    assert f"`{again}` tries again" in shown.err
    (place / "a" / "report.html").rmdir()
    main(shlex.split(again)[1:])
    assert "10 validation images" in (place / "a" / "report.html").read_text(encoding="utf-8")
