"""The commands train, evaluate and predict."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import singleshot as ss
from singleshot.cli.main import main
from singleshot.data import load_dataset
from singleshot.training.metrics_log import read_records
from singleshot.training.run import Run

RECIPE = """\
dataset: digits
image_size: 16
model: resnet18
width: 0.03125
loss: cross_entropy
train_images: 200
learning_rate: 3e-2
epochs: 40
"""
BASE = ["train", "--recipe", "mine.yaml", "--epochs", "3"]


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def singleshot(*args: str | Path, cwd: Path) -> Done:
    """Run a command in this process, which has imported torch already."""
    output, errors, code = io.StringIO(), io.StringIO(), 0
    before = Path.cwd()
    os.chdir(cwd)
    with redirect_stdout(output), redirect_stderr(errors):
        try:
            main(list(map(str, args)))
        except SystemExit as exit:
            code = int(exit.code or 0)
        finally:
            os.chdir(before)
    return Done(code, output.getvalue(), errors.getvalue())


def singleshot_process(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "singleshot", *args]
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, encoding="utf-8", timeout=300, check=False
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recipe file, a finished run of it in runs/base, and some digits as image files."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "mine.yaml").write_text(RECIPE)
    trained = singleshot_process(*BASE, "--output", "runs/base", "--tensorboard", cwd=folder)
    assert trained.returncode == 0, trained.stderr
    assert "singleshot evaluate runs/base" in trained.stdout
    (folder / "trained.txt").write_text(trained.stderr)
    digits = load_dataset("digits", image_size=16).test
    (folder / "photos[").mkdir()  # a path such as photos[/0].png looks like rich markup
    for number in range(5):
        Image.fromarray(digits.images[number, 0].numpy()).save(folder / "photos[" / f"{number}].png")
    return folder


def test_flags_override_the_file_which_overrides_the_preset(place: Path) -> None:
    recipe = Run.open(place / "runs" / "base").recipe
    assert recipe.epochs == 3
    assert (recipe.learning_rate, recipe.train_images, recipe.loss) == (0.03, 200, "cross_entropy")
    assert (recipe.validation, recipe.mirror) == (0.1, False)  # of the small preset for digits
    assert recipe == recipe.resolved()
    assert recipe.samples == 1


def test_progress_is_plain_lines_and_records(place: Path) -> None:
    lines = (place / "trained.txt").read_text().splitlines()
    assert len(lines) == 3
    for number, line in enumerate(lines, start=1):
        unseen = r"validation acc [01]\.\d+ ECE 0\.\d+ NLL \d\.\d+"
        assert re.match(rf"epoch {number}/3: loss \d\.\d+  acc 0\.\d+  {unseen}  [\d,]+ img/s  0:00:\d\d left", line)
    records = read_records(place / "runs" / "base" / "metrics.jsonl")
    assert [(record["kind"], record["epoch"]) for record in records] == [("epoch", 1), ("epoch", 2), ("epoch", 3)]
    assert list((place / "runs" / "base" / "tensorboard").glob("events.*"))


def test_the_same_command_again_changes_nothing_and_another_recipe_is_refused(place: Path) -> None:
    weights = place / "runs" / "base" / "checkpoints"
    before = {path: path.read_bytes() for path in weights.rglob("*") if path.is_file()}
    again = singleshot(*BASE, "--output", "runs/base", "--no-report", cwd=place)
    assert again.returncode == 0, again.stderr
    other = singleshot(*BASE, "--output", "runs/base", "--seed", "1", "--no-channels-last", cwd=place)
    assert other.returncode == 2
    assert "runs/base holds another run: seed is 0, not 1; channels_last is True, not False" in other.stderr
    assert "train --resume runs/base" in other.stderr
    assert {path: path.read_bytes() for path in weights.rglob("*") if path.is_file()} == before


MISTAKES = [
    (["train", "--recipe", "bad.yaml"], "bad.yaml: unknown recipe field 'epoch'; did you mean 'epochs'?"),
    (["train", "--recipe", "absent.yaml"], "absent.yaml: no such recipe file"),
    (["train", "--dataset", "digit", "--output", "x"], "did you mean 'digits'?"),
    (["train", "--dataset", "digits", "--model", "resnet81", "--output", "x"], "did you mean 'resnet18'?"),
    (["train", "--epoch", "3"], "--epochs"),
    (["train", "--loss", "vcwi"], "vwci"),
    (["train", "--samples", "1"], "samples must lie in [2, 1000] for vwci, got 1 (--samples, or samples in a recipe"),
    (["train", "--checkpoint-seconds", "nan"], "--checkpoint-seconds must be at least 0, got nan"),
    (["train", "--resume", "nowhere"], "nowhere is not a run"),
    (["train", "--resume", "runs/base", "--epochs", "9"], "uses the recipe of that run, where epochs is 3, not 9"),
    (["train", "--resume", "runs/base", "--recipe", "mine.yaml"], "leave out --recipe"),
    (["train", "--resume", "runs/base", "--output", "x"], "leave out --output x"),
    (["train", "--recipe", "mine.yaml", "--device", "abacus", "--output", "x"], "device='abacus' is not available"),
    (
        ["train", "--recipe", "mine.yaml", "--start-from", "runs/base", "--width", "0.0625", "--output", "x"],
        "is a checkpoint of another network: size mismatch for stem",
    ),
    (["evaluate", "nowhere"], "nowhere is not a run"),
    (["evaluate", "runs/base", "--predictions", "out.txt"], "--predictions out.txt must end in .npz"),
    (["evaluate", "runs/base", "--split", "tset"], "test"),
    (["predict", "runs/base"], "give at least one image"),
    (["predict", "runs/base", "photos[", "--abstain-below", "80"], "--abstain-below must lie in [0, 1], got 80"),
]


def test_mistakes_print_one_message_and_exit_with_2(place: Path) -> None:
    (place / "bad.yaml").write_text("epoch: 3\n")
    for args, message in MISTAKES:
        refused = singleshot(*args, cwd=place)
        assert refused.returncode == 2, (args, refused.stderr)
        assert message in refused.stderr
        assert refused.stdout == ""


def test_evaluate_prints_the_metrics_and_writes_the_predictions(place: Path) -> None:
    file = place / "out.npz"
    shown = singleshot(
        "evaluate",
        "runs/base",
        "--json",
        "--split",
        "validation",
        "--weights",
        "best",
        "--predictions",
        file,
        cwd=place,
    )
    assert shown.returncode == 0, shown.stderr
    numbers = json.loads(shown.stdout)
    assert (numbers["run"], numbers["split"], numbers["weights"]) == ("runs/base", "validation", "best")
    with np.load(file, allow_pickle=False) as arrays:
        assert arrays["class_names"].tolist() == list("0123456789")
        logits, labels = (torch.from_numpy(arrays[name]) for name in ("logits", "labels"))
    calibration = ss.Calibration(bins=20)
    calibration.update(logits=logits, labels=labels)
    assert numbers["count"] == len(labels) == 20  # a tenth of the 200 training images
    result = calibration.compute()
    assert {name: numbers[name] for name in result.metrics()} == pytest.approx(result.metrics(), abs=1e-6)
    assert numbers["bins"]["count"] == result.bins.count.tolist()
    # The run logged the same values for its best epoch.
    records = read_records(place / "runs" / "base" / "metrics.jsonl")
    best = min(records, key=lambda record: record["validation"]["nll"])
    assert numbers["step"] == best["step"]
    assert numbers["nll"] == pytest.approx(best["validation"]["nll"], abs=1e-5)


def test_evaluate_shows_a_table_of_the_test_images(place: Path) -> None:
    shown = singleshot("evaluate", "runs/base", cwd=place)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("runs/base: 899 test images, one forward pass each, after step ")
    for metric in ("Accuracy", "ECE", "MCE", "NLL", "Brier", "Mean confidence"):
        assert re.search(rf"^  {metric} +\d+\.\d{{4}}   \d+\.\d{{4}} – \d+\.\d{{4}}$", shown.stdout, re.MULTILINE)
    assert re.search(r"(overconfident|underconfident|miscalibration|off) .*\.$", shown.stdout.lower(), re.MULTILINE)


def test_predict_classifies_files_and_folders_and_abstains(place: Path, tmp_path: Path) -> None:
    as_json = singleshot("predict", "runs/base", "photos[", "--json", cwd=place)
    assert as_json.returncode == 0, as_json.stderr
    found = json.loads(as_json.stdout)
    assert [one["image"] for one in found] == [f"photos[/{number}].png" for number in range(5)]
    assert not any(one["abstained"] for one in found)
    assert all(one["class_name"] in "0123456789" for one in found)

    long = tmp_path / f"{'x' * 200}.png"
    long.write_bytes((place / "photos[" / "0].png").read_bytes())
    (tmp_path / "broken.png").write_bytes(b"no image")
    table = singleshot(
        "predict", "runs/base", "photos[/0].png", tmp_path, "--abstain-below", "1.0", "--skip-unreadable", cwd=place
    )
    assert table.returncode == 0, table.stderr
    lines = table.stdout.splitlines()
    assert lines[0].split() == ["image", "class", "confidence"]
    confidence = f"{found[0]['confidence']:.3f}"
    images = ["photos[/0].png", str(long)]
    assert [line.split() for line in lines[1:-1]] == [[image, "—", "abstained", confidence] for image in images]
    assert lines[-1] == "2 of 2 abstained: confidence below 1"
    assert re.match(r"1 left out; the first: .*broken\.png is not an image", table.stderr)
    stopped = singleshot("predict", "runs/base", tmp_path / "broken.png", cwd=place)
    assert stopped.returncode == 2
    assert re.fullmatch(r"singleshot: \S+broken\.png .*; --skip-unreadable leaves it out\n", stopped.stderr)


def test_a_trained_baseline_is_finetuned_with_vwci(place: Path) -> None:
    star = singleshot(
        *["train", "--recipe", "mine.yaml", "--epochs", "5", "--loss", "vwci", "--samples", "3"],
        *["--start-from", "runs/base", "--last-share", "0.2", "--output", "runs/star", "--no-report"],
        cwd=place,
    )
    assert star.returncode == 0, star.stderr
    assert re.match(r"epoch 5/5: loss \d\.\d+  α 0\.\d+  acc ", star.stderr)
    (record,) = read_records(place / "runs" / "star" / "metrics.jsonl")  # the base run did four of the five epochs
    assert (record["kind"], record["epoch"]) == ("epoch", 5)
    assert record["alpha"] > 0
    run = Run.open(place / "runs" / "star")
    assert run.checkpoint().step == record["step"]
    base, finished = (Run.open(place / "runs" / name).load_model() for name in ("base", "star"))
    pairs = zip(base.parameters(), finished.parameters(), strict=True)
    moved = max(float((one - other).detach().abs().max()) for one, other in pairs)
    assert 0 < moved < 0.1  # it started from the weights of the base run


def test_the_help_of_a_command_has_an_example(tmp_path: Path) -> None:
    for command in ("train", "evaluate", "predict"):
        shown = singleshot(command, "--help", cwd=tmp_path)
        assert shown.returncode == 0
        assert f"Example: singleshot {command} " in " ".join(shown.stdout.split())


def test_the_help_of_train_shows_the_values_that_apply(place: Path) -> None:
    shown = singleshot("train", "--help", "--recipe", "mine.yaml", "--preset=paper", "--model", "vgg16", cwd=place)
    text = re.sub(r"[\s│]+", " ", shown.stdout)
    assert "--batch-size INT images per step, over all processes (default: 256)" in text
    assert "images that do not fill a batch (default: 40)" in text
