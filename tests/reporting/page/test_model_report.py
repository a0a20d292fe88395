"""Reports of runs: their numbers are those of ``singleshot evaluate``, with images, passes and training."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from integration.overconfident import run, shown_json
from singleshot.cli.evaluate import evaluate
from singleshot.cli.report import report
from singleshot.reporting.page import page_data, render, run_report
from singleshot.reporting.page.model_report import training_curve


def test_a_run_has_its_images_passes_and_training(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    run(report, str(trained), "-o", str(page), "--json", "--replicates", "20")
    model = shown_json(capsys)["models"][0]
    run(evaluate, str(trained), "--json", "--replicates", "20")
    expected = shown_json(capsys)
    for name, found in model["metrics"].items():
        assert found["estimate"] == expected[name]
        assert found["low"] == expected["intervals"][name]["low"]
    assert (model["name"], model["count"]) == ("a", expected["count"])
    assert "test images, one forward pass each, after step " in model["about"]
    for part in ("mistakes", "correct"):
        assert 0 < len(model["inspection"][part]) <= 24
        assert all(entry["image"].startswith("data:image/png;base64,") for entry in model["inspection"][part])
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
    assert held_out["count"] == 6
    assert held_out["command"].endswith("--split validation --replicates 0")


def test_a_log_with_other_values_still_gives_a_training_curve(tmp_path: Path) -> None:
    assert training_curve(tmp_path / "metrics.jsonl") is None
    records = [
        {"kind": "step", "step": 1, "loss": 2.0},
        {"kind": "epoch", "step": 2, "epoch": "one"},
        {"kind": "strength", "step": 2, "strength": 0.5, "temperature": 1.5},
        {"kind": "strength", "step": 3, "strength": 0.75, "temperature": 1.25},
        {
            "kind": "epoch",
            "step": 3,
            "epoch": 1,
            "loss": "low",
            "train_accuracy": True,
            "test": {"ece": 0.25, "nll": None},
        },
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    (epoch,) = training_curve(tmp_path / "metrics.jsonl") or []
    missing = dict.fromkeys(("loss", "train_accuracy", "accuracy", "nll"))
    assert epoch == {**missing, "epoch": 1, "ece": 0.25, "split": "test", "strength": 0.75}


@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>", "a&b'\"<", "x\n\x1b[2J\u202e", "{{7*7}}"])
def test_the_hostile_name_of_a_run_is_only_text(trained: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(trained, tmp_path / name)
    reports = [run_report(folder, replicates=0) for folder in (trained, tmp_path / name)]
    plain, hostile = (render(page_data([one], title=one.name, replicates=0)) for one in reports)
    tags = [re.findall(r"<\s*/?\s*[a-zA-Z!][^\s>/]*", text) for text in (plain, hostile)]
    assert tags[0] == tags[1]  # no element comes from the name
    assert "\x1b" not in hostile
    assert "49" not in render(page_data([reports[1]], title="{{7*7}}", replicates=0)).partition("</title>")[0][-20:]
