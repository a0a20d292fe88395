"""The command ``singleshot export``: from the folder of a run to a file that runs without it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from singleshot.cli.main import main
from singleshot.export import read_facts
from singleshot.export.formats import read_program
from singleshot.export.inputs import read_inputs
from singleshot.posthoc import TemperatureScaling, VectorScaling
from singleshot.training import Recipe, Run, export_run, train

IMAGES = torch.randint(0, 256, (5, 1, 16, 16), generator=torch.Generator().manual_seed(0)).to(torch.uint8)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A short training with validation images."""
    recipe = Recipe(
        dataset="digits", model="resnet18", width=0.03125, image_size=16, mirror=False, loss="cross_entropy",
        train_images=200, validation=0.2, epochs=3, device="cpu",
    )  # fmt: skip
    return train(recipe, tmp_path_factory.mktemp("runs") / "a")


def logits_of(run: Run, weights: str) -> np.ndarray:
    with torch.no_grad():
        logits: torch.Tensor = run.load_model(weights)(run.normalization()(IMAGES))
    return logits.double().numpy()


def test_an_onnx_file_with_a_saved_temperature(run: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import onnxruntime

    TemperatureScaling(2.5).save(tmp_path / "scaling.json")
    path = tmp_path / "new" / "a.onnx"
    main(["export", str(run.folder), "-o", str(path), "--temperature", str(tmp_path / "scaling.json")])
    printed = capfd.readouterr()
    assert printed.err == ""
    for text in (
        f"new/a.onnx: resnet18 after step {run.checkpoint().step}",
        "uint8 images (batch, 1, 16, 16)",
        "temperature 2.5, folded into the last layer",
    ):
        assert text in printed.out
    session = onnxruntime.InferenceSession(path)
    logits, probs = session.run(["logits", "probs"], {"images": IMAGES.numpy()})
    scaled = logits_of(run, "last") / 2.5
    assert np.abs(logits - scaled).max() <= 1e-5
    assert np.abs(probs - np.exp(scaled) / np.exp(scaled).sum(1, keepdims=True)).max() <= 1e-5
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["class_names"]) == list("0123456789")
    assert json.loads(metadata["temperature"]) == 2.5


def test_a_torch_program_of_the_best_weights(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.pt2"
    main(["export", str(run.folder), "--format", "torch-export", "-o", str(path), "--weights", "best", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert said.pop("path") == str(path)
    assert said.pop("largest_difference") <= 1e-5
    assert said == read_facts(path)
    assert (said["step"], said["weights"]) == (run.checkpoint("best").step, "best")
    assert (said["model"], said["dataset"], said["temperature"]) == ("resnet18", "digits", None)
    assert (said["mean"], said["std"]) == (list(run.info.mean), list(run.info.std))
    with torch.no_grad():
        logits, _ = read_program(path)(read_inputs(IMAGES, None))
    assert np.abs(logits.numpy() - logits_of(run, "best")).max() <= 1e-5


MISTAKES = [
    (["RUN", "-o", "a.pt2"], "a file of format 'onnx' must end in .onnx, got a.pt2"),
    (["RUN", "-o", "a.onnx", "--format", "torch-export"], "must end in .pt2, got a.onnx"),
    (["RUN", "-o", "a.tflite", "--format", "tflite"], "tflite"),
    (["RUN"], "--output"),
    (["nothing", "-o", "a.onnx"], "nothing"),
    (["RUN", "-o", "a.onnx", "--temperature", "0"], "temperature must lie in (0, inf), got 0"),
    (["RUN", "-o", "a.onnx", "--temperature", "nan"], "temperature must lie in (0, inf), got nan"),
    (["RUN", "-o", "a.onnx", "--temperature", "warm"], "--temperature warm is neither a number nor a file"),
    (["RUN", "-o", "a.onnx", "--temperature", "text.json"], "text.json is not a saved scaling"),
    (
        ["RUN", "-o", "a.onnx", "--temperature", "vector.json"],
        "vector.json contains method 'vector', expected temperature",
    ),
    (["RUN", "-o", "text.json/a.onnx"], "text.json/a.onnx cannot be written to"),
    (["RUN", "-o", "a.onnx", "--weights", "first"], "first"),
    (["EMPTY", "-o", "a.onnx"], "has no checkpoint yet"),
]


def test_mistakes_print_one_message_and_exit_with_2(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.json").write_text('{"temperature": 2}')
    VectorScaling(torch.ones(3), torch.zeros(3)).save("vector.json")
    Run(tmp_path / "empty", run.recipe, run.info).create()
    folders = {"RUN": str(run.folder), "EMPTY": "empty"}
    for args, message in MISTAKES:
        with pytest.raises(SystemExit) as ended:
            main(["export", *(folders.get(arg, arg) for arg in args)])
        assert ended.value.code == 2
        assert message in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "text.json", "vector.json"]


def test_a_file_that_disagrees_exits_with_1(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("singleshot.export.parity.TOLERANCE", -1.0)
    with pytest.raises(SystemExit) as ended:
        main(["export", str(run.folder), "--format", "torch-export", "-o", str(tmp_path / "a.pt2")])
    assert ended.value.code == 1
    assert "disagrees with the model" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_file_does_not_contain_the_path_of_the_images(tmp_path: Path) -> None:
    folder = tmp_path / "private folder" / "pets"
    for number in range(10):
        path = folder / ("cat", "dog")[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 16), (25 * number, 90, 9)).save(path)
    recipe = Recipe(
        dataset=str(folder), model="resnet18", width=0.03125, image_size=16, loss="cross_entropy", epochs=1,
        device="cpu",
    )  # fmt: skip
    train(recipe, tmp_path / "run")
    done = export_run(tmp_path / "run", tmp_path / "a.pt2", format="torch-export")
    assert done.facts["dataset"] == "pets"
    assert b"private folder" not in done.path.read_bytes()


def test_the_help_states_the_tolerance(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["export", "--help"])
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "agree to 1e-5, relative to the largest logit if that is above 1" in printed
