"""What all methods share: shapes, dtypes, modules, invalid input, and saved files."""

from __future__ import annotations

import copy
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from singleshot.posthoc import (
    SCALINGS,
    HistogramBinning,
    IsotonicScaling,
    MatrixScaling,
    Scaling,
    TemperatureScaling,
    VectorScaling,
    load_scaling,
)

LOGITS = torch.randn(120, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 4
LABELS = torch.multinomial((LOGITS / 2).softmax(1), 1, generator=torch.Generator().manual_seed(1)).squeeze(1)
FITTED: dict[str, Scaling] = {name: method.fit(LOGITS, LABELS) for name, method in SCALINGS.items()}
FITTED["one_vs_rest"] = HistogramBinning.fit(LOGITS, LABELS, kind="one_vs_rest")
FITTED["dirichlet"] = MatrixScaling.fit(LOGITS, LABELS, on="log_probs", strength=1.0, off_diagonal=1.0)
every_method = pytest.mark.parametrize("name", FITTED)
HEAD = '{"format": "singleshot-scaling", "version": 1'


@every_method
def test_shapes_dtypes_and_invariance(name: str) -> None:
    scaling = FITTED[name]
    flat = scaling(LOGITS)
    assert flat.shape == LOGITS.shape
    torch.testing.assert_close(scaling(LOGITS.reshape(4, 5, 6, 3)), flat.reshape(4, 5, 6, 3), rtol=0, atol=1e-12)
    torch.testing.assert_close(scaling(LOGITS[7]), flat[7], rtol=0, atol=1e-12)
    assert scaling(LOGITS[:0]).shape == (0, 3)
    torch.testing.assert_close(scaling(LOGITS + 5).softmax(1), flat.softmax(1), rtol=0, atol=1e-9)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        rounded = LOGITS.to(dtype)
        found, expected = scaling(rounded), scaling(rounded.double())
        tolerance = {torch.float64: 1e-12, torch.float32: 1e-5}.get(dtype, 1e-5 if name != "temperature" else 5e-2)
        torch.testing.assert_close(found.double().softmax(1), expected.softmax(1), rtol=0, atol=tolerance)
        if name != "temperature":
            assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        else:
            assert found.dtype == dtype


@pytest.mark.parametrize("method", SCALINGS.values())
def test_fits_are_computed_in_float64(method: type[Scaling]) -> None:
    for dtype in (torch.float16, torch.float32):
        found, expected = method.fit(LOGITS.to(dtype), LABELS), method.fit(LOGITS.to(dtype).double(), LABELS)
        assert found.to_dict() == expected.to_dict()


@every_method
def test_a_scaling_is_a_module(name: str) -> None:
    scaling = FITTED[name]
    assert not list(scaling.parameters())
    layer = nn.Linear(6, 3, dtype=torch.float64)
    model = nn.Sequential(layer, scaling)
    inputs = torch.randn(5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    outputs = model(inputs)
    assert torch.equal(outputs, scaling(layer(inputs)))
    outputs[0, 0].backward()
    assert inputs.grad is not None
    assert bool(inputs.grad.isfinite().all())
    converted: Any = copy.deepcopy(model).half().to(torch.float32)  # layers are rounded, the scaling is not
    assert converted[0].weight.dtype == torch.float32
    assert converted[1].to_dict() == scaling.to_dict()
    assert torch.equal(converted[1](LOGITS), scaling(LOGITS))
    assert all(buffer.is_meta for buffer in copy.deepcopy(scaling).to("meta").buffers())

    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = SCALINGS[scaling.method].fit(LOGITS[:40], LABELS[:40], **options_of(scaling))
    restored = nn.Sequential(nn.Linear(6, 3, dtype=torch.float64), other)
    restored.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(restored(inputs), outputs)


def options_of(scaling: Scaling) -> dict[str, Any]:
    return {name: getattr(scaling, name) for name in ("on", "kind") if hasattr(scaling, name)}


def test_representation() -> None:
    assert repr(TemperatureScaling(1.5)) == "TemperatureScaling(temperature=1.5)"
    assert repr(VectorScaling(torch.ones(3), torch.zeros(3))) == "VectorScaling(scale=(3,), bias=(3,))"
    scaling = HistogramBinning([[0.5]], [[0.2, 0.9]], 10, 3)
    assert repr(scaling) == "HistogramBinning(edges=(1, 2), values=(1, 2), examples=10, classes=3, kind=top_label)"


def test_a_state_of_another_number_of_classes_does_not_load() -> None:
    scaling = IsotonicScaling([[0.0, 1.0]] * 2, [[0.0, 1.0]] * 2, 4)
    with pytest.raises(RuntimeError, match="size mismatch for scores"):
        scaling.load_state_dict(FITTED["isotonic"].state_dict())


@every_method
def test_torch_export_reproduces_the_scaling(name: str) -> None:
    batch = torch.export.Dim("batch")
    program = torch.export.export(FITTED[name], (LOGITS[:9],), dynamic_shapes=({0: batch},), strict=False)
    torch.testing.assert_close(program.module()(LOGITS), FITTED[name](LOGITS), rtol=0, atol=1e-14)


@every_method
def test_save_and_load_are_exact(name: str, tmp_path: Path) -> None:
    scaling, path = FITTED[name], tmp_path / "deep" / "fitted.json"
    scaling.save(path)
    for loaded in (load_scaling(path), type(scaling).load(str(path))):
        assert type(loaded) is type(scaling)
        assert loaded.to_dict() == scaling.to_dict()
        assert torch.equal(loaded(LOGITS), scaling(LOGITS))
    assert [file.name for file in path.parent.iterdir()] == ["fitted.json"]


def test_a_file_of_version_0_1_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    rows = '"edges": [[0.25, 0.5], []], "values": [[0.0, 0.5, 1.0], [0.1]]'
    parameters = f'{{{rows}, "examples": 7, "classes": 2, "kind": "one_vs_rest"}}'
    path.write_text(f'{HEAD}, "method": "histogram", "parameters": {parameters}}}\n')
    scaling = load_scaling(path)
    assert isinstance(scaling, HistogramBinning)
    assert scaling.to_dict()["values"] == [[0.0, 0.5, 1.0], [0.1]]
    scaling.save(tmp_path / "new.json")
    assert (tmp_path / "new.json").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a saved scaling"),
        (b"\xff\xfe\x00", "is not a saved scaling"),
        (b"\x80\x04\x95cposix\nsystem\n", "is not a saved scaling"),
        (b"[" * 200_000, "is not a saved scaling"),
        (b'{"format": ' + b"[" * 200_000, "is not a saved scaling"),
        (f'{HEAD}, "parameters": {"[" * 200_000}'.encode(), "is not a saved scaling: maximum recursion"),
        (b"[1, 2]", "is not a saved scaling"),
        (b'{"format": "other", "version": 1}', "is not a saved scaling: Invalid enum value 'other'"),
        (b'{"format": "singleshot-scaling", "version": 2}', "has format version 2, this version of singleshot reads 1"),
        (b'{"format": "singleshot-scaling", "version": true}', "is not a saved scaling: Expected `int`, got `bool`"),
        (f'{HEAD}, "method": 3}}'.encode(), "is not a saved scaling: .*method"),
        (f'{HEAD}, "method": "os", "parameters": {{}}}}'.encode(), "contains method 'os', expected temperature or"),
        (f'{HEAD}, "method": "temperature"}}'.encode(), "is damaged: Object missing required field `temperature`"),
    ],
)
def test_foreign_and_damaged_files_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"hostile.json .*{message}|hostile.json {message}") as refused:
        load_scaling(path)
    assert len(str(refused.value)) < 500


BAD_PARAMETERS = {
    "temperature": [
        ('{"temperature": 1, "more": 2}', "unknown field `more`"),
        ('{"temperature": 1, "%s": 2}' % ("x" * 10_000), "unknown field `x"),
        ('{"temperature": "1"}', "Expected `float`, got `str` - at `\\$.temperature`"),
        ('{"temperature": true}', "Expected `float`, got `bool`"),
        ('{"temperature": -1}', r"lie in \(0, inf\)"),
        ('{"temperature": 1e-320}', "must be at least 2.22507e-308, got 1e-320"),
        ('{"temperature": NaN}', "malformed"),
        ('{"temperature": 1e999}', "out of range"),
        ('{"temperature": 1%s}' % ("0" * 9000), "out of range"),
        ('{"temperature": [[1]]}', "Expected `float`, got `array`"),
    ],
    "vector": [
        ('{"scale": [1, 1], "bias": [0]}', r"shape \(C,\), got \(2,\) and \(1,\)"),
        ('{"scale": [], "bias": []}', r"shape \(C,\), got \(0,\)"),
        ('{"scale": [1, null], "bias": [0, 0]}', r"Expected `float`, got `null` - at `\$.scale\[1\]`"),
    ],
    "matrix": [
        ('{"weight": [[1, 0], [0]], "bias": [0, 0], "on": "logits"}', "expected sequence of length 2 at dim 1"),
        ('{"weight": [[1, 0]], "bias": [0, 0], "on": "logits"}', "weight must have shape"),
        ('{"weight": [[1]], "bias": [0], "on": "probs"}', "Invalid enum value 'probs'"),
        ('{"weight": [[1]], "bias": [0], "on": ["logits"]}', "Expected `str`, got `array`"),
    ],
    "isotonic": [
        ('{"scores": [[0, 1]], "values": [[0]], "examples": 3}', "as many numbers as"),
        ('{"scores": [[1, 0]], "values": [[0, 1]], "examples": 3}', r"scores\[0\] must be finite and strictly incr"),
        ('{"scores": [[0, 1]], "values": [[1, 0]], "examples": 3}', "values must not decrease"),
        ('{"scores": [[0, 1]], "values": [[0, 2]], "examples": 3}', r"values\[0\] must lie in \[0, 1\]"),
        ('{"scores": [[0]], "values": [[0], [1]], "examples": 3}', "must have 1 rows, got 1 and 2"),
        ('{"scores": [], "values": [], "examples": 3}', "must have 1 rows, got 0 and 0"),
        ('{"scores": [[0]], "values": [[0]], "examples": 0.5}', "Expected `int`, got `float` - at `\\$.examples`"),
        ('{"scores": [[0]], "values": [[0]], "examples": 1%s}' % ("0" * 30), "examples"),
    ],
    "histogram": [
        ('{"edges": [[]], "values": [[0.5]], "examples": 1, "classes": 2, "kind": "one_vs_rest"}', "must have 2 rows"),
        ('{"edges": [[0.5]], "values": [[0.5]], "examples": 1, "classes": 2, "kind": "top_label"}', "one number more"),
        ('{"edges": [[]], "values": [[1.5]], "examples": 1, "classes": 2, "kind": "top_label"}', r"lie in \[0, 1\]"),
        ('{"edges": [[]], "values": [[1]], "examples": 1, "classes": 2, "kind": 7}', "Expected `str`, got `int`"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("method", BAD_PARAMETERS)
def test_invalid_parameters_are_refused(method: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    for parameters, message in BAD_PARAMETERS[method]:
        path.write_text(f'{HEAD}, "method": "{method}", "parameters": {parameters}}}')
        with pytest.raises(ValueError, match=f"bad.json .*({message})") as refused:
            load_scaling(path)
        assert len(str(refused.value)) < 500


def test_other_methods_missing_files_and_large_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    TemperatureScaling(1.5).save(path)
    assert json.loads(path.read_text())["parameters"] == {"temperature": 1.5}
    with pytest.raises(ValueError, match=r"a\.json contains method 'temperature', expected vector"):
        VectorScaling.load(path)
    with pytest.raises(ValueError, match=r"nowhere\.json: no such file"):
        load_scaling(tmp_path / "nowhere.json")
    os.mkfifo(tmp_path / "pipe.json")
    for place in (tmp_path, tmp_path / "pipe.json"):
        with pytest.raises(ValueError, match="is not a file"):
            load_scaling(place)
    monkeypatch.setattr("singleshot.posthoc.scaling.MAX_BYTES", 10)
    with pytest.raises(ValueError, match=r"a\.json is larger than 10 bytes"):
        load_scaling(path)


@pytest.mark.parametrize("method", SCALINGS.values())
def test_invalid_fitting_sets(method: type[Scaling]) -> None:
    cases: list[tuple[Tensor, Tensor, type[Exception], str]] = [
        (torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64), ValueError, "at least one example"),
        (torch.zeros(2, 3), torch.zeros(3, dtype=torch.int64), ValueError, r"labels must have shape \(2,\)"),
        (torch.zeros(2, 3), torch.tensor([0, 3]), ValueError, r"labels\[1\] = 3"),
        (torch.zeros(2, 3), torch.tensor([0, -1]), ValueError, r"labels\[1\] = -1"),
        (torch.zeros(2, 3), torch.tensor([0.0, 1.0]), TypeError, "integer class indices"),
        (torch.zeros(2, 3), torch.tensor([True, False]), TypeError, "integer class indices, got torch.bool"),
        (torch.tensor([[0.0, 1.0], [float("nan"), 0.0]]), torch.tensor([0, 1]), ValueError, "1 of 2 rows.*row 1"),
        (torch.tensor([[0.0, float("inf")]]), torch.tensor([0]), ValueError, "1 of 1 rows"),
        (torch.zeros(1, 1, 3), torch.tensor([0]), ValueError, r"logits must have shape \(N, C\)"),
    ]
    for logits, labels, error, message in cases:
        with pytest.raises(error, match=message):
            method.fit(logits, labels)


@pytest.mark.parametrize("method", SCALINGS.values())
def test_one_logit_of_a_binary_classifier(method: type[Scaling]) -> None:
    one, labels = LOGITS[:, 1:2], (LABELS == 1).long()
    if method is not TemperatureScaling:
        with pytest.raises(ValueError, match=r"at least two classes, got shape \(120, 1\).*torch\.cat"):
            method.fit(one, labels)
        return
    expected = method.fit(torch.cat([torch.zeros_like(one), one], 1), labels)
    assert expected.to_dict()["temperature"] not in {0.0, 1.0}
    for logits in (one, one.squeeze(1)):
        for given in (labels, labels.bool()):
            assert method.fit(logits, given).to_dict() == expected.to_dict()
    two = expected(torch.cat([torch.zeros_like(one), one], 1)).softmax(1)
    torch.testing.assert_close(expected(one).sigmoid(), two[:, 1:])
    torch.testing.assert_close(expected(one[:, 0]).sigmoid(), two[:, 1])


@every_method
def test_invalid_logits(name: str) -> None:
    with pytest.raises(TypeError, match=r"floating point tensor, got torch\.int64"):
        FITTED[name](torch.zeros(2, 3, dtype=torch.int64))
    with pytest.raises(TypeError, match="floating point tensor, got list"):
        FITTED[name]([[0.0, 0.0, 0.0]])
    if name != "temperature":
        with pytest.raises(ValueError, match=r"shape \(\.\.\., 3\), the classes of the fit, got \(2, 4\)"):
            FITTED[name](torch.zeros(2, 4))


def test_rows_of_very_different_lengths_do_not_exhaust_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [[0.0]] * 5 + [[index / 20 for index in range(20)]]
    scaling, path = IsotonicScaling(rows, rows, 9), tmp_path / "long.json"
    scaling.save(path)
    monkeypatch.setattr("singleshot.posthoc.nonparametric.MAX_PADDED", 100)
    with pytest.raises(ValueError, match=r"long\.json is damaged: 6 rows of up to 20 scores are too many"):
        load_scaling(path)


def test_invalid_constructor_arguments() -> None:
    for temperature in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"lie in \(0, inf\)"):
            TemperatureScaling(temperature)
    with pytest.raises(TypeError, match="temperature must be a number, got '2'"):
        TemperatureScaling("2")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"scale and bias must both have shape \(C,\)"):
        VectorScaling(torch.ones(3), torch.ones(2))
    with pytest.raises(ValueError, match="bias must be finite"):
        VectorScaling(torch.ones(1), torch.tensor([torch.nan]))
    with pytest.raises(ValueError, match=r"weight must have shape \(C, C\)"):
        MatrixScaling(torch.ones(3, 2), torch.ones(3))
    with pytest.raises(ValueError, match=r"scores\[0\] must be finite"):
        IsotonicScaling([[0.0, torch.inf]], [[0.0, 1.0]], 3)
    with pytest.raises(ValueError, match=r"values\[0\] must lie in \[0, 1\]"):
        HistogramBinning([[]], [[torch.nan]], 3, 2)
