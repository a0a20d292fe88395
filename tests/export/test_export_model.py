"""Export of any module: folding of the temperature, inputs, metadata and refusals."""

from __future__ import annotations

import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings, strategies as st
from torch import Tensor, nn

from singleshot.export import export_model, read_facts
from singleshot.export.formats import read_onnx, read_program
from singleshot.export.inputs import read_inputs
from singleshot.export.program import Classifier, trace
from singleshot.posthoc import IsotonicScaling, Scaling, TemperatureScaling

ROWS = torch.randn(7, 6, generator=torch.Generator().manual_seed(0))


class Tied(nn.Module):
    """The weights of the last layer are also used before it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.tanh(self.layer(x)), self.layer.weight)


class ComputedWeights(nn.Module):
    """The weights of the last layer are computed."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, F.normalize(self.layer.weight), self.layer.bias)


class Noisy(nn.Module):
    """Functional dropout before or after the last layer, active in evaluation mode if ``always``."""

    def __init__(self, *, always: bool = False, last: bool = False) -> None:
        super().__init__()
        self.layer, self.always, self.last = nn.Linear(6, 3), always, last

    def forward(self, x: Tensor) -> Tensor:
        on = self.training or self.always
        return F.dropout(self.layer(x), 0.5, on) if self.last else self.layer(F.alpha_dropout(x, 0.5, on))


class FixedBatch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(2, 6) * 2 if len(x) == 2 else x


MODELS: dict[str, tuple[Callable[[], nn.Module], bool]] = {
    "linear": (lambda: nn.Linear(6, 3), True),
    "linear without bias": (lambda: nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3, bias=False)), True),
    "inactive noise": (Noisy, True),
    "log-softmax last": (lambda: nn.Sequential(nn.Linear(6, 3), nn.LogSoftmax(1)), False),
    "batch norm last": (lambda: nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)), False),
    "convolution last": (lambda: nn.Sequential(nn.Unflatten(1, (6, 1)), nn.Conv1d(6, 3, 1), nn.Flatten()), False),
    "inactive noise last": (lambda: Noisy(last=True), False),
    "tied weights": (Tied, False),
    "computed weights": (ComputedWeights, False),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_temperature_is_folded_if_possible(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    build, folds = MODELS[name]
    model = build().train()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    done = export_model(model, tmp_path / "a.pt2", example=ROWS, format="torch-export", temperature=0.4)
    assert model.training
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert done.facts["temperature_folded"] is folds
    assert done.facts["outputs"]["logits"] == "unnormalised, divided by the temperature"
    assert done.largest_difference <= 1e-5
    with torch.no_grad():
        logits, probs = read_program(tmp_path / "a.pt2")(read_inputs(ROWS, None))
        plain = model.eval()(ROWS).double().numpy()
    assert np.allclose(logits.numpy(), plain / 0.4, atol=1e-5)
    assert (logits.argmax(1).numpy() == plain.argmax(1)).all()
    weights = np.exp(plain / 0.4 - (plain / 0.4).max(1, keepdims=True))
    assert np.allclose(probs.numpy(), weights / weights.sum(1, keepdims=True), atol=1e-5)


@settings(max_examples=8, deadline=None)
@given(temperature=st.floats(0.05, 50), seed=st.integers(0, 1000))
def test_folding_changes_no_argmax(temperature: float, seed: int) -> None:
    torch.manual_seed(seed)
    model = nn.Linear(6, 5)
    program, folded = trace(Classifier(model, temperature=temperature), read_inputs(ROWS, None))
    assert folded
    with torch.no_grad():
        logits, _ = program.module()(ROWS)
        plain = model(ROWS)
    assert torch.equal(logits.argmax(1), plain.argmax(1))
    assert np.allclose(logits.numpy() * temperature, plain.numpy(), atol=1e-5)


def test_the_file_computes_in_float32(tmp_path: Path) -> None:
    for dtype in (torch.float16, torch.float64):
        model = nn.Linear(6, 3).to(dtype)
        export_model(model, tmp_path / "a.pt2", example=ROWS, format="torch-export")
        logits, _ = read_program(tmp_path / "a.pt2")(read_inputs(ROWS, None))
        assert logits.dtype == torch.float32
        assert model.weight.dtype == dtype
        assert torch.allclose(logits, F.linear(ROWS, model.weight.float(), model.bias.float()), atol=1e-6)


@pytest.mark.parametrize("method", [TemperatureScaling, IsotonicScaling])
def test_a_scaling_is_exported_with_its_model(method: type[Scaling], tmp_path: Path) -> None:
    torch.manual_seed(0)
    layer, labels = nn.Linear(6, 3), torch.arange(7) % 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few examples
        scaling = method.fit(layer(ROWS), labels)
    export_model(nn.Sequential(layer, scaling), tmp_path / "a.onnx", example=ROWS)
    logits, _ = read_onnx(tmp_path / "a.onnx")(read_inputs(ROWS, None))
    assert torch.allclose(logits, scaling(layer(ROWS)), atol=1e-5)


def test_token_ids_are_passed_to_the_model(tmp_path: Path) -> None:
    model = nn.Sequential(nn.EmbeddingBag(9, 4), nn.Linear(4, 3))
    tokens = torch.tensor([[0, 8, 2], [7, 1, 1]])
    done = export_model(model, tmp_path / "a.pt2", example=tokens, format="torch-export")
    described = {"name": "inputs", "shape": ["batch", 3], "dtype": "int64", "values": "inputs of the model"}
    assert done.facts["inputs"] == [described]
    assert done.facts["outputs"]["logits"] == "unnormalised"
    logits, _ = read_program(tmp_path / "a.pt2")(read_inputs(tokens, None))
    assert torch.allclose(logits, model(tokens), atol=1e-6)
    assert_not_stored(tokens, tmp_path / "a.pt2")


def assert_not_stored(example: Tensor, path: Path) -> None:
    assert not torch.export.load(path).example_inputs
    with zipfile.ZipFile(path) as archive:
        stored = b"".join(archive.read(name) for name in archive.namelist())
    assert example[:2].numpy().tobytes() not in stored


def test_pixels_are_normalized_inside(tmp_path: Path) -> None:
    layer = nn.Linear(8, 3)
    model = nn.Sequential(nn.Flatten(), layer)
    options: Any = {"format": "torch-export", "mean": (0.5, 0.1), "std": (0.2, 0.0)}
    for dtype in (torch.uint8, torch.float32):
        example = torch.tensor([[0, 255, 128, 7] * 2]).reshape(1, 2, 2, 2).to(dtype)
        export_model(model, tmp_path / "a.pt2", example=example, **options)
        logits, _ = read_program(tmp_path / "a.pt2")(read_inputs(example, None))
        pixels = example.numpy().astype(np.float64) / 255
        seen = np.concatenate([(pixels[:, :1] - 0.5) / 0.2, pixels[:, 1:] - 0.1], 1)  # std 0: only centred
        expected = seen.reshape(1, 8) @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
        assert np.allclose(logits.detach().numpy(), expected, atol=1e-5)


def test_huge_logits_are_compared_relative_to_their_size(tmp_path: Path) -> None:
    model = nn.Linear(6, 3)
    with torch.no_grad():
        model.weight.mul_(1e6)
    done = export_model(model, tmp_path / "a.pt2", example=ROWS, format="torch-export", temperature=1e-3)
    assert done.largest_difference <= 1e-5
    assert_not_stored(ROWS, tmp_path / "a.pt2")


def test_onnx_prints_nothing_and_divides_by_the_temperature(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = nn.Sequential(nn.Linear(6, 3), nn.LogSoftmax(1))
    done = export_model(model, tmp_path / "new" / "a.onnx", example=ROWS, class_names=["ä", "b", "c"], temperature=3.0)
    assert capfd.readouterr() == ("", "")
    assert read_facts(done.path) == done.facts
    assert done.facts["class_names"] == ["ä", "b", "c"]
    logits, _ = read_onnx(done.path)(read_inputs(ROWS, None))
    assert torch.allclose(logits, model(ROWS) / 3, atol=1e-6)
    assert [path.name for path in done.path.parent.iterdir()] == ["a.onnx"]


def test_models_that_onnx_cannot_express_are_refused(tmp_path: Path) -> None:
    class Unsupported(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            values: Tensor = torch.special.bessel_j0(x)
            return values

    with pytest.raises(ValueError, match=r"cannot be expressed in ONNX: .*try format torch-export$") as refused:
        export_model(Unsupported(), tmp_path / "a.onnx", example=ROWS)
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())


class OtherOutput(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"scores": x}


INVALID: list[tuple[nn.Module, dict[str, Any], str]] = [
    (nn.Linear(6, 3), {"format": "tflite"}, "format='tflite' is unknown; choose one of onnx, torch-export"),
    (nn.Linear(6, 3), {"format": "onnx"}, r"a file of format 'onnx' must end in \.onnx, got .*a\.pt2"),
    (nn.Linear(6, 3), {"temperature": 0.0}, r"temperature must lie in \(0, inf\), got 0"),
    (nn.Linear(6, 3), {"temperature": -1.0}, "temperature must lie in"),
    (nn.Linear(6, 3), {"temperature": float("nan")}, "temperature must lie in"),
    (nn.Linear(6, 3), {"temperature": float("inf")}, "temperature must lie in"),
    (nn.Linear(6, 3), {"class_names": ["a"]}, "class_names must name the model's 3 classes, got 1 names"),
    (nn.Linear(6, 3), {"mean": [0.5]}, "mean and std must be given together"),
    (nn.Linear(6, 3), {"mean": [0.5], "std": [0.5]}, r"a value for each channel .* shape \(7, 6\)"),
    (nn.Flatten(), {"example": ROWS.view(1, 2, 3, 7), "mean": [torch.nan, 0], "std": [1, 1]}, "mean must be finite"),
    (nn.Flatten(), {"example": ROWS.view(1, 2, 3, 7), "mean": [0, 0], "std": [1, -1]}, "std not negative"),
    (nn.Linear(6, 3), {"example": ROWS[:0]}, r"at least one row, got \(0, 6\)"),
    (nn.Linear(5, 3), {}, r"cannot be run on an example of shape \(7, 6\) and torch.float32: mat1 and mat2"),
    (nn.Unflatten(1, (2, 3)), {}, r"the model's output must have shape \(N, C\), got \(7, 2, 3\)"),
    (nn.Flatten(0), {}, "the model's output must have shape"),
    (OtherOutput(), {}, "cannot be run on an example of .*: cannot find logits in a dict"),
    (nn.Linear(6, 3), {"example": (ROWS, ROWS[:3])}, r"equal numbers of rows, at least one, got \[3, 7\]"),
    (nn.Linear(6, 3), {"example": ()}, r"equal numbers of rows, at least one, got \[\]"),
    (nn.Linear(6, 3), {"input_names": ["a", "b"]}, "input_names must be 1 different names other than logits"),
    (nn.Linear(6, 3), {"input_names": ["logits"]}, "input_names must be 1 different names other than logits"),
    (FixedBatch(), {}, r"cannot trace the model for any batch size.*x\.shape\[0\] in place of len\(x\)"),
    (Noisy(always=True), {}, "the model draws random numbers in evaluation mode .*alpha_dropout"),
    (Noisy(always=True, last=True), {}, "training=self.training"),
]


def test_invalid_arguments_write_nothing(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.pt2"
    for model, options, message in INVALID:
        with pytest.raises(ValueError, match=message):
            export_model(model, path, **{"example": ROWS, "format": "torch-export", **options})
    wrong_types: list[tuple[Any, dict[str, Any], str]] = [
        (nn.Linear(6, 3), {"example": [1.0]}, "example must hold tensors .* got a float for 'input_0'"),
        (nn.Linear(6, 3), {"temperature": "2"}, "temperature must be a number"),
        (nn.Linear(6, 3), {"example": 1.0}, "example must be a tensor .*, or a tuple or dict of them, got float"),
        (torch.tanh, {}, "model must be an nn.Module"),
    ]
    for model, options, message in wrong_types:
        with pytest.raises(TypeError, match=message):
            export_model(model, path, **{"example": ROWS, "format": "torch-export", **options})
    assert not list(tmp_path.iterdir())


def test_one_logit_and_probabilities_are_refused(tmp_path: Path) -> None:
    for model, message in (
        (nn.Linear(6, 1), "returns one logit, whose softmax is always 1; export a model that returns two"),
        (nn.Sequential(nn.Linear(6, 3), nn.Softmax(1)), "returns probabilities: .* without its softmax"),
    ):
        with pytest.raises(ValueError, match=message):
            export_model(model, tmp_path / "a.onnx", example=ROWS)
    assert not list(tmp_path.iterdir())


def test_paths_are_checked_first(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.onnx").mkdir()
    model = nn.Linear(5, 3)  # does not fit the example
    with pytest.raises(ValueError, match=r"folder\.onnx is a folder"):
        export_model(model, tmp_path / "folder.onnx", example=ROWS)
    with pytest.raises(ValueError, match=r"file/a\.onnx cannot be written to \(Not a directory"):
        export_model(model, tmp_path / "file" / "a.onnx", example=ROWS)


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for missing in ("onnx", "onnxscript", "onnxruntime"):
        with monkeypatch.context() as context:
            context.setitem(sys.modules, missing, None)
            with pytest.raises(ValueError, match=rf"{missing} .*pip install 'singleshot\[export\]'"):
                export_model(nn.Linear(6, 3), tmp_path / "a.onnx", example=ROWS)
    assert not list(tmp_path.iterdir())
