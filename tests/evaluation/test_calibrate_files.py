"""Which files ``calibrate`` takes labels from, and which it never writes to."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import tyro

from singleshot.cli.calibrate import calibrate


def run(*args: str) -> None:
    tyro.cli(calibrate, args=list(args), config=(tyro.conf.FlagCreatePairsOff,))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Scores and labels of val and test, equally many, as .npy pairs and as .npz files."""
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(["val", "test"]):
        random = np.random.default_rng(seed)
        logits = random.normal(size=(300, 3)) * 1.5
        labels = (logits + random.gumbel(size=logits.shape)).argmax(1)
        np.save(f"{name}_logits.npy", logits * 3)
        np.save(f"{name}_y.npy", labels)
        np.savez(f"{name}.npz", logits=logits * 3, labels=labels, y=labels)
    return tmp_path


def test_labels_of_one_file_are_never_taken_for_those_of_another(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = ("test_logits.npy", "--labels", "test_y.npy", "--fit-on", "val_logits.npy")
    with pytest.raises(ValueError, match=r"--fit-on val_logits\.npy holds scores only; .* --fit-labels"):
        run(*pair)
    temperatures = []
    for args in (
        (*pair, "--fit-labels", "val_y.npy"),
        ("test_logits.npy", "--labels", "test_y.npy", "--fit-on", "val.npz"),  # its own labels, not test_y.npy
        ("test.npz", "--labels", "y", "--fit-on", "val.npz"),
        ("test.npz", "--fit-on", "val_logits.npy", "--fit-labels", "val_y.npy"),
    ):
        run(*args, "--json")
        temperatures.append(json.loads(capsys.readouterr().out)["temperature"])
    assert temperatures == pytest.approx([temperatures[0]] * 4, rel=1e-9)
    assert 2 < temperatures[0] < 4.5


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--save-scaling", "test.npz"], "--save-scaling test.npz must end in .json"),
        (["--save-scaling", "link.json"], "--save-scaling link.json is a file that is read from"),
        (["--save-scaling", "labels.json"], "--save-scaling labels.json is a file that is read from"),
        (["--save-scaling", "fit.json"], "--save-scaling fit.json is a file that is read from"),
        (["-o", "val_y.npz"], "--output val_y.npz is a file that is read from"),
    ],
)
def test_nothing_that_is_read_is_written_to(args: list[str], message: str, place: Path) -> None:
    links = {"link.json": "test_logits.npy", "labels.json": "test_y.npy", "fit.json": "val_logits.npy"}
    for link, target in {**links, "val_y.npz": "val_y.npy"}.items():
        Path(link).symlink_to(target)
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    known = ["test_logits.npy", "--labels", "test_y.npy", "--fit-on", "val_logits.npy", "--fit-labels", "val_y.npy"]
    with pytest.raises(ValueError, match=re.escape(message)):
        run(*known, *args)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before


def test_what_was_learned_before_is_not_written_over(place: Path) -> None:
    run("test.npz", "--fit-on", "val.npz", "--save-scaling", "s.json")
    with pytest.raises(ValueError, match=r"--save-scaling s\.json is a file that is read from"):
        run("test.npz", "--load-scaling", "s.json", "--save-scaling", "./s.json")
