"""What all methods share: shapes, dtypes, bad input, and the file they are saved in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from singleshot.paper.protocols import case2_split, temperature_case1, temperature_case2
from singleshot.posthoc import (
    SCALINGS,
    HistogramBinning,
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


@every_method
def test_leading_dimensions_are_kept(name: str) -> None:
    scaling = FITTED[name]
    flat = scaling(LOGITS)
    assert flat.shape == LOGITS.shape
    torch.testing.assert_close(scaling(LOGITS.reshape(4, 5, 6, 3)), flat.reshape(4, 5, 6, 3), rtol=0, atol=1e-12)
    torch.testing.assert_close(scaling(LOGITS[7]), flat[7], rtol=0, atol=1e-12)
    assert scaling(LOGITS[:0]).shape == (0, 3)


@every_method
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_precision_gives_the_same_probabilities(name: str, dtype: torch.dtype) -> None:
    rounded = LOGITS.to(dtype)
    found, expected = FITTED[name](rounded), FITTED[name](rounded.double())
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5}.get(dtype, 1e-5 if name != "temperature" else 5e-2)
    torch.testing.assert_close(found.double().softmax(1), expected.softmax(1), rtol=0, atol=tolerance)
    if name != "temperature":
        assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


@pytest.mark.parametrize("method", SCALINGS.values())
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_fit_is_made_in_float64_whatever_comes_in(method: type[Scaling], dtype: torch.dtype) -> None:
    found, expected = method.fit(LOGITS.to(dtype), LABELS), method.fit(LOGITS.to(dtype).double(), LABELS)
    assert found.parameters() == expected.parameters()


@every_method
def test_a_constant_added_to_all_logits_changes_no_probability(name: str) -> None:
    moved = FITTED[name](LOGITS + 5).softmax(1)
    torch.testing.assert_close(moved, FITTED[name](LOGITS).softmax(1), rtol=0, atol=1e-9)


@every_method
def test_a_saved_calibration_comes_back_bit_for_bit(name: str, tmp_path: Path) -> None:
    scaling, path = FITTED[name], tmp_path / "deep" / "fitted.json"
    scaling.save(path)
    for loaded in (load_scaling(path), type(scaling).load(str(path))):
        assert type(loaded) is type(scaling)
        assert loaded.parameters() == scaling.parameters()
        assert torch.equal(loaded(LOGITS), scaling(LOGITS))
    assert [file.name for file in path.parent.iterdir()] == ["fitted.json"]


def test_another_methods_file_is_refused(tmp_path: Path) -> None:
    TemperatureScaling(2.0).save(tmp_path / "a.json")
    with pytest.raises(ValueError, match=r"a\.json holds method 'temperature', not 'vector'; load_scaling"):
        VectorScaling.load(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read as JSON"),
        (b"\xff\xfe\x00", "cannot be read as JSON"),
        (b"\x80\x04\x95cposix\nsystem\n", "cannot be read as JSON"),
        (b"[" * 200_000, "cannot be read as JSON"),
        (b"[1, 2]", "is not a saved calibration"),
        (b'{"format": "other"}', "is not a saved calibration"),
        (b'{"format": "singleshot-scaling", "version": 2}', "has version 2 .* update singleshot"),
        (b'{"format": "singleshot-scaling", "version": true}', "has version True"),
        (b'{"format": "singleshot-scaling", "version": 1, "method": 3}', "is damaged"),
        (b'{"format": "singleshot-scaling", "version": 1, "method": "os", "parameters": {}}', "unknown; known are"),
    ],
)
def test_a_foreign_or_damaged_file_is_refused_by_name(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"hostile.json .*{message}|hostile.json {message}"):
        load_scaling(path)


@pytest.mark.parametrize(
    ("method", "parameters", "message"),
    [
        ("temperature", "{}", "the parameters must be temperature, got none"),
        ("temperature", '{"temperature": 1, "more": 2}', "must be temperature, got"),
        ("temperature", '{"temperature": "1"}', "temperature must be a number, got '1'"),
        ("temperature", '{"temperature": true}', "temperature must be a number, got True"),
        ("temperature", '{"temperature": -1}', "finite number above 0"),
        ("temperature", '{"temperature": 1e-320}', "must be at least 2.22507e-308, got 1e-320"),
        ("temperature", '{"temperature": NaN}', "NaN is not a number"),
        ("temperature", '{"temperature": 1e999}', "must be a finite number"),
        ("temperature", '{"temperature": 1%s}' % ("0" * 400), "must be a finite number"),
        ("temperature", '{"temperature": 1%s}' % ("0" * 9000), "JSON|finite"),
        ("temperature", '{"temperature": [[1]]}', "must be a number"),
        ("vector", '{"scale": [1, 1], "bias": [0]}', "bias must have 2 numbers, got 1"),
        ("vector", '{"scale": [], "bias": []}', "scale must be a list of numbers"),
        ("vector", '{"scale": [1, null], "bias": [0, 0]}', r"scale\[1\] must be a number, got None"),
        ("matrix", '{"weight": [[1, 0], [0]], "bias": [0, 0], "on": "logits"}', r"weight\[1\] must have 2 numbers"),
        ("matrix", '{"weight": [[1, 0]], "bias": [0, 0], "on": "logits"}', "weight must have shape"),
        ("matrix", '{"weight": [[1]], "bias": [0], "on": "probs"}', "on='probs' is unknown"),
        ("matrix", '{"weight": [[1]], "bias": [0], "on": ["logits"]}', "is unknown"),
        ("isotonic", '{"scores": [[0, 1]], "values": [[0]], "examples": 3}', "equally long"),
        ("isotonic", '{"scores": [[1, 0]], "values": [[0, 1]], "examples": 3}', "must rise"),
        ("isotonic", '{"scores": [[0, 1]], "values": [[0, 2]], "examples": 3}', r"must lie in \[0, 1\]"),
        ("isotonic", '{"scores": [[0]], "values": [[0], [1]], "examples": 3}', "one per class, got 1 and 2"),
        ("isotonic", '{"scores": [[0]], "values": [[0]], "examples": 0.5}', "examples must be a whole number"),
        (
            "histogram",
            '{"edges": [[]], "values": [[0.5]], "examples": 1, "classes": 2, "kind": "one_vs_rest"}',
            "must have 2 sets",
        ),
        (
            "histogram",
            '{"edges": [[0.5]], "values": [[0.5]], "examples": 1, "classes": 2, "kind": "top_label"}',
            "one more",
        ),
        (
            "histogram",
            '{"edges": [[]], "values": [[1.5]], "examples": 1, "classes": 2, "kind": "top_label"}',
            r"must lie in \[0, 1\]",
        ),
        ("histogram", '{"edges": [[]], "values": [[1]], "examples": 1, "classes": 2, "kind": 7}', "kind=7 is unknown"),
    ],
)
def test_parameters_that_cannot_be_are_refused(method: str, parameters: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(
        f'{{"format": "singleshot-scaling", "version": 1, "method": "{method}", "parameters": {parameters}}}'
    )
    with pytest.raises(ValueError, match=f"bad.json .*({message})"):
        load_scaling(path)


def test_a_missing_file_and_one_too_large_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"nowhere\.json: there is no such file"):
        load_scaling(tmp_path / "nowhere.json")
    with pytest.raises(ValueError, match="there is no such file"):
        load_scaling(tmp_path)
    TemperatureScaling(1.5).save(tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text())["parameters"] == {"temperature": 1.5}
    monkeypatch.setattr("singleshot.posthoc.storage.MAX_BYTES", 10)
    with pytest.raises(ValueError, match=r"a\.json is larger than 10 bytes"):
        load_scaling(tmp_path / "a.json")


@pytest.mark.parametrize("method", SCALINGS.values())
@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64), "at least one example"),
        (torch.zeros(2, 3), torch.zeros(3, dtype=torch.int64), r"labels must have shape \(2,\)"),
        (torch.zeros(2, 3), torch.tensor([0, 3]), r"labels\[1\] = 3"),
        (torch.zeros(2, 3), torch.tensor([0, -1]), r"labels\[1\] = -1"),
        (torch.zeros(2, 3), torch.tensor([0.0, 1.0]), "integer class indices"),
        (torch.tensor([[0.0, 1.0], [float("nan"), 0.0]]), torch.tensor([0, 1]), "1 of 2 rows.*row 1"),
        (torch.tensor([[0.0, float("inf")]]), torch.tensor([0]), "1 of 1 rows"),
        (torch.zeros(3), torch.tensor([0]), r"logits must have shape \(N, C\)"),
    ],
)
def test_bad_examples_are_named(method: type[Scaling], logits: Tensor, labels: Tensor, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        method.fit(logits, labels)


@pytest.mark.parametrize("name", [name for name in FITTED if name != "temperature"])
@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (torch.zeros(2, 4), r"shape \(\.\.\., 3\), the classes of the fit, got \(2, 4\)"),
        (torch.zeros(2, 3, dtype=torch.int64), "floating point tensor, got torch.int64"),
        ([[0.0, 0.0, 0.0]], "floating point tensor, got list"),
    ],
)
def test_logits_that_do_not_fit_are_refused(name: str, logits: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FITTED[name](logits)


def test_the_papers_two_cases() -> None:
    train, held_out = case2_split(LABELS)
    assert len(held_out) == 12
    assert sorted([*train.tolist(), *held_out.tolist()]) == list(range(120))
    assert torch.equal(held_out, case2_split(LABELS.numpy())[1])
    whole = TemperatureScaling.fit(LOGITS, LABELS)
    assert temperature_case1(LOGITS, LABELS) == whole
    case2 = temperature_case2(LOGITS, LABELS, held_out)
    assert case2 == TemperatureScaling.fit(LOGITS[held_out], LABELS[held_out]) != whole
    assert temperature_case2(LOGITS, LABELS) == case2
    other = case2_split(LABELS, held_out=0.5)[1]
    assert temperature_case2(LOGITS, LABELS, other.numpy()) == TemperatureScaling.fit(LOGITS[other], LABELS[other])


@pytest.mark.parametrize(
    ("held_out", "message"),
    [
        ([0, 120], r"held_out must lie in \[0, 120\), the training examples, got 120"),
        ([3, -1], r"got -1"),
        ([4, 4], "each once, got 2"),
        (range(120), "some of the 120 training examples, each once, got 120"),
        (torch.zeros(0, dtype=torch.int64), "each once, got 0"),
        ([0.5], "must be a list of positions, got torch.float"),
        (LABELS == 0, r"got torch.bool of shape \(120,\)"),
    ],
)
def test_held_out_positions_that_cannot_be_are_refused(held_out: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        temperature_case2(LOGITS, LABELS, held_out)


@pytest.mark.parametrize(
    ("labels", "held_out", "message"),
    [
        ([0, 1, 0], 0.0, "held_out must lie between 0 and 1"),
        ([0, 1, 0], 0.1, "is not one image"),
        ([], 0.1, "at least one example"),
        ([0.5, 1.0], 0.5, "integer class indices"),
        ([0, -1, 2], 0.5, r"labels\[1\] = -1"),
    ],
)
def test_a_split_that_cannot_be_is_refused(labels: list[float], held_out: float, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        case2_split(labels, held_out=held_out)
