"""Anybody's module: where the temperature goes, what is refused, and what is left behind."""

from __future__ import annotations

import sys
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
from singleshot.export.program import Classifier, trace

ROWS = torch.randn(7, 6, generator=torch.Generator().manual_seed(0))


class Tied(nn.Module):
    """The last layer's weights are used before it as well."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.tanh(self.layer(x)), self.layer.weight)


class ComputedWeights(nn.Module):
    """The last layer's weights are made from others."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, F.normalize(self.layer.weight), self.layer.bias)


class Noisy(nn.Module):
    """Functional dropout, resting in evaluation mode or not, before the last layer or after it."""

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
    "one class": (lambda: nn.Linear(6, 1), True),
    "resting noise": (Noisy, True),
    "log-softmax last": (lambda: nn.Sequential(nn.Linear(6, 3), nn.LogSoftmax(1)), False),
    "batch norm last": (lambda: nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)), False),
    "convolution last": (lambda: nn.Sequential(nn.Unflatten(1, (6, 1)), nn.Conv1d(6, 3, 1), nn.Flatten()), False),
    "resting noise last": (lambda: Noisy(last=True), False),
    "tied weights": (Tied, False),
    "computed weights": (ComputedWeights, False),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_temperature_is_folded_where_it_can_be_and_divides_elsewhere(name: str, tmp_path: Path) -> None:
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
        logits, probs = read_program(tmp_path / "a.pt2")(ROWS)
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
    program = trace(Classifier(model, temperature=temperature), ROWS)
    assert program.temperature_folded
    with torch.no_grad():
        logits, _ = program.exported.module()(ROWS)
        plain = model(ROWS)
    assert torch.equal(logits.argmax(1), plain.argmax(1))
    assert np.allclose(logits.numpy() * temperature, plain.numpy(), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_the_file_computes_in_float32_whatever_the_weights_are(dtype: torch.dtype, tmp_path: Path) -> None:
    model = nn.Linear(6, 3).to(dtype)
    export_model(model, tmp_path / "a.pt2", example=ROWS, format="torch-export")
    logits, _ = read_program(tmp_path / "a.pt2")(ROWS)
    assert logits.dtype == torch.float32
    assert model.weight.dtype == dtype
    assert torch.allclose(logits, F.linear(ROWS, model.weight.float(), model.bias.float()), atol=1e-6)


def test_token_ids_are_left_as_they_are(tmp_path: Path) -> None:
    model = nn.Sequential(nn.EmbeddingBag(9, 4), nn.Linear(4, 3))
    tokens = torch.tensor([[0, 8, 2], [7, 1, 1]])
    done = export_model(model, tmp_path / "a.pt2", example=tokens, format="torch-export")
    described = {"name": "images", "shape": ["batch", 3], "dtype": "int64", "values": "as the model takes them"}
    assert done.facts["input"] == described
    assert done.facts["outputs"]["logits"] == "unnormalised"  # and not divided by a temperature that there is not
    logits, _ = read_program(tmp_path / "a.pt2")(tokens)
    assert torch.allclose(logits, model(tokens), atol=1e-6)


@pytest.mark.parametrize("example", [torch.tensor([[0, 8, 2], [7, 1, 1]]), ROWS])
def test_the_example_of_the_caller_is_not_stored(example: Tensor, tmp_path: Path) -> None:
    first = nn.Linear(6, 4) if example.is_floating_point() else nn.EmbeddingBag(9, 4)
    export_model(nn.Sequential(first, nn.Linear(4, 3)), tmp_path / "a.pt2", example=example, format="torch-export")
    assert not torch.export.load(tmp_path / "a.pt2").example_inputs
    with zipfile.ZipFile(tmp_path / "a.pt2") as archive:
        stored = b"".join(archive.read(name) for name in archive.namelist())
    assert example[:2].numpy().tobytes() not in stored


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_pixels_are_normalized_inside(dtype: torch.dtype, tmp_path: Path) -> None:
    layer = nn.Linear(8, 3)
    model = nn.Sequential(nn.Flatten(), layer)
    example = torch.tensor([[0, 255, 128, 7] * 2]).reshape(1, 2, 2, 2).to(dtype)
    export_model(model, tmp_path / "a.pt2", example=example, format="torch-export", mean=(0.5, 0.1), std=(0.2, 0.0))
    logits, _ = read_program(tmp_path / "a.pt2")(example)
    pixels = example.numpy().astype(np.float64) / 255
    seen = np.concatenate([(pixels[:, :1] - 0.5) / 0.2, pixels[:, 1:] - 0.1], 1)  # a constant channel is only centred
    wanted = seen.reshape(1, 8) @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
    assert np.allclose(logits.detach().numpy(), wanted, atol=1e-5)


def test_huge_logits_are_compared_relative_to_their_size(tmp_path: Path) -> None:
    model = nn.Linear(6, 3)
    with torch.no_grad():
        model.weight.mul_(1e6)
    done = export_model(model, tmp_path / "a.pt2", example=ROWS, format="torch-export", temperature=1e-3)
    assert done.largest_difference <= 1e-5


def test_onnx_says_nothing_and_divides_where_it_must(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = nn.Sequential(nn.Linear(6, 3), nn.LogSoftmax(1))
    done = export_model(model, tmp_path / "new" / "a.onnx", example=ROWS, class_names=["ä", "b", "c"], temperature=3.0)
    assert capfd.readouterr() == ("", "")
    assert read_facts(done.path) == done.facts
    assert done.facts["class_names"] == ["ä", "b", "c"]
    logits, _ = read_onnx(done.path)(ROWS)
    assert torch.allclose(logits, model(ROWS) / 3, atol=1e-6)
    assert [path.name for path in done.path.parent.iterdir()] == ["a.onnx"]


def test_what_onnx_cannot_express_is_said_in_a_line(tmp_path: Path) -> None:
    class Unheard(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            values: Tensor = torch.special.bessel_j0(x)
            return values

    with pytest.raises(ValueError, match=r"cannot be expressed in ONNX: .*format torch-export may do$") as refused:
        export_model(Unheard(), tmp_path / "a.onnx", example=ROWS)
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (nn.Linear(6, 3), {"format": "tflite"}, "format='tflite' is unknown; choose one of onnx, torch-export"),
        (nn.Linear(6, 3), {"format": "onnx"}, r"a file of format 'onnx' ends in \.onnx, got .*a\.pt2"),
        (nn.Linear(6, 3), {"temperature": 0.0}, "temperature must be a finite number above 0, got 0"),
        (nn.Linear(6, 3), {"temperature": -1.0}, "temperature must be"),
        (nn.Linear(6, 3), {"temperature": float("nan")}, "temperature must be"),
        (nn.Linear(6, 3), {"temperature": float("inf")}, "temperature must be"),
        (nn.Linear(6, 3), {"class_names": ["a"]}, "class_names must name the model's 3 classes, got 1 names"),
        (nn.Linear(6, 3), {"mean": [0.5]}, "mean and std belong together"),
        (nn.Linear(6, 3), {"mean": [0.5], "std": [0.5]}, r"a value for each channel .* shape \(7, 6\)"),
        (nn.Linear(6, 3), {"example": ROWS[:0]}, r"at least one row, .* got \(0, 6\)"),
        (nn.Linear(6, 3), {"example": [1.0]}, "example must be a tensor .* got list"),
        (nn.Linear(5, 3), {}, r"cannot be run on an example of shape \(7, 6\) and torch.float32: mat1 and mat2"),
        (nn.Unflatten(1, (2, 3)), {}, r"the model's output must have shape \(N, C\), got \(7, 2, 3\)"),
        (nn.LSTM(6, 3), {}, "the model's output must be a torch tensor, got tuple"),
        (nn.Flatten(0), {}, r"the model's output must have shape"),
        (FixedBatch(), {}, "torch.export cannot trace the model for any batch size"),
        (Noisy(always=True), {}, "the model draws random numbers in evaluation mode .*alpha_dropout"),
        (Noisy(always=True, last=True), {}, "training=self.training"),
    ],
)
def test_mistakes_are_named_and_leave_nothing(
    model: nn.Module, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        export_model(model, tmp_path / "new" / "a.pt2", **{"example": ROWS, "format": "torch-export", **options})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "bad", [{"mean": [float("nan")] * 2, "std": [1.0] * 2}, {"mean": [0.0] * 2, "std": [-1.0] * 2}]
)
def test_a_normalization_that_cannot_be_is_refused(bad: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mean must be finite and std not negative"):
        export_model(nn.Flatten(), tmp_path / "a.onnx", example=torch.zeros(1, 2, 2, 2), **bad)


def test_a_path_that_cannot_be_written_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.onnx").mkdir()
    model = nn.Linear(5, 3)  # which the example does not fit: had there been work, it would have said so
    with pytest.raises(ValueError, match=r"folder\.onnx is a folder"):
        export_model(model, tmp_path / "folder.onnx", example=ROWS)
    with pytest.raises(ValueError, match=r"file/a\.onnx cannot be written to \(Not a directory"):
        export_model(model, tmp_path / "file" / "a.onnx", example=ROWS)


@pytest.mark.parametrize("missing", ["onnx", "onnxscript", "onnxruntime"])
def test_without_the_extra_it_says_what_to_install(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ValueError, match=rf"{missing} .*pip install 'singleshot\[export\]'"):
        export_model(nn.Linear(6, 3), tmp_path / "a.onnx", example=ROWS)
    assert not list(tmp_path.iterdir())
