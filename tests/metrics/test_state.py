"""Merging of states across objects, files and processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

import singleshot as ss


def predictions(examples: int = 101, classes: int = 6) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(examples, classes, dtype=torch.float64, generator=generator) * 3
    return logits, torch.randint(0, classes, (examples,), generator=generator)


def calibration_of(logits: Tensor, labels: Tensor, classwise: bool = True) -> ss.Calibration:
    calibration = ss.Calibration(classwise=classwise)
    calibration.update(logits=logits, labels=labels)
    return calibration


@pytest.mark.parametrize("classwise", [False, True])
def test_json_round_trip_is_exact(classwise: bool, tmp_path: Path) -> None:
    calibration = calibration_of(*predictions(), classwise=classwise)
    calibration.update(probs=torch.eye(6)[:1], labels=torch.tensor([1]))  # an infinite NLL
    calibration.save(tmp_path / "deep" / "state.json")
    loaded = ss.Calibration.load(tmp_path / "deep" / "state.json")
    assert loaded.to_dict() == calibration.to_dict()
    assert loaded.compute().metrics() == calibration.compute().metrics()
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["state.json"]
    text = (tmp_path / "deep" / "state.json").read_text()
    json.loads(text, parse_constant=pytest.fail)  # no NaN or Infinity, which are not JSON


def test_a_loaded_state_can_be_updated() -> None:
    logits, labels = predictions()
    resumed = ss.Calibration.from_dict(calibration_of(logits[:50], labels[:50]).to_dict())
    resumed.update(logits=logits[50:], labels=labels[50:])
    whole = calibration_of(logits, labels).compute().metrics()
    for name, value in resumed.compute().metrics().items():
        assert value == pytest.approx(whole[name], rel=1e-12)


def test_a_damaged_file_is_refused_and_named(tmp_path: Path) -> None:
    text = json.dumps(calibration_of(*predictions()).to_dict())
    path = tmp_path / "broken.json"
    not_saved, no_data = "not a saved Calibration", "no data gives these sums"
    damaged = [(text[: len(text) // 2], "line 1 column"), ("[" * 200_000, "recursion"), ("[]", not_saved)]
    for old, new, message in (
        ("singleshot.calibration", "other", not_saved),
        ('"version": 1', '"version": 99', "version 99"),
        ('"count": [0, ', '"count": [', "damaged"),
        ('"count": [0, ', '"count": [1.5, ', "damaged"),
        ('"count": [0, ', '"count": ["x", ', "damaged"),
        ('"count": [0, ', '"count": [-1, ', no_data),
        ('"count": [0, ', '"count": [9007199254740993, ', no_data),
        ('"correct": [0, ', '"correct": [1, ', no_data),
        ('"confidence": [0.0, ', '"confidence": [Infinity, ', no_data),
        ('"confidence": [0.0, ', '"confidence": [NaN, ', no_data),
        ('"confidence": [0.0, ', '"confidence": ["inf", ', "damaged"),
        ('"bins": 20', '"bins": 20.7', "damaged"),
        ('"bins": 20', '"bins": 0', "damaged"),
        ('"bins": 20', '"bins": 1000000000000000', "damaged"),
        ('"bins": 20', '"buns": 20', "damaged"),
        ('"classes": 6', '"classes": -6', "damaged"),
        ('"nll"', '"lln"', "damaged"),
    ):
        assert old in text
        damaged.append((text.replace(old, new, 1), message))
    for content, message in damaged:
        path.write_text(content)
        with pytest.raises(ValueError, match=rf"broken\.json: .*{message}"):
            ss.Calibration.load(path)


def test_reset_forgets_the_examples_and_keeps_the_options() -> None:
    state = calibration_of(*predictions())
    assert state.reset() is state
    assert state.to_dict() == ss.Calibration(classwise=True).to_dict()
    state.update(logits=torch.zeros(1, 3), labels=torch.tensor([2]))  # another number of classes
    assert state.compute().count == 1
    histogram = ss.VarianceHistogram(bins=3, measure="hellinger")
    histogram.update(logits=torch.zeros(2, 1, 3), labels=torch.tensor([0]))
    assert repr(histogram.reset()) == "<VarianceHistogram with bins=3, measure='hellinger': 0 examples>"


def test_an_empty_state_is_saved_and_merged() -> None:
    empty = ss.Calibration.from_dict(ss.Calibration(classwise=True).to_dict())
    full = calibration_of(*predictions())
    before = full.to_dict()
    full.merge(empty)
    empty.merge(full)
    assert full.to_dict() == before == empty.to_dict()
    assert repr(full) == "<Calibration with bins=20, classes=6: 101 examples>"


def test_states_with_different_options_do_not_merge() -> None:
    with pytest.raises(ValueError, match="different options"):
        ss.Calibration(bins=10).merge(ss.Calibration(bins=20))
    with pytest.raises(ValueError, match="different options"):
        ss.Calibration(classwise=True).merge(ss.Calibration())
    with pytest.raises(ValueError, match="different options"):
        calibration_of(torch.zeros(2, 3), torch.tensor([0, 1])).merge(calibration_of(*predictions()))
    with pytest.raises(ValueError, match="different options"):
        ss.VarianceHistogram(measure="hellinger").merge(ss.VarianceHistogram(measure="bhattacharyya"))
    with pytest.raises(TypeError, match="can only merge with its own type, got VarianceHistogram"):
        ss.Calibration().merge(ss.VarianceHistogram())  # type: ignore[arg-type]


def test_merge_does_not_change_the_other_state() -> None:
    first, second = calibration_of(*predictions()), ss.Calibration(classwise=True)
    before = first.to_dict()
    assert second.merge(first) is second
    assert first.to_dict() == before
    assert second.to_dict() == before
    first.merge(second)
    assert second.to_dict() == before
    assert first.compute().count == 2 * second.compute().count


def test_two_processes_give_the_single_process_result(tmp_path: Path) -> None:
    """Afterwards each process holds all 101 examples, even if it had none before."""
    logits, labels = predictions()
    torch.save({"logits": logits, "labels": labels}, tmp_path / "predictions.pt")
    worker = str(Path(__file__).with_name("reduce_worker.py"))
    commands = [
        [sys.executable, worker, str(rank), "2", str(tmp_path), *shares]
        for rank, shares in enumerate((["0:40", "0:0"], ["40:101", "0:101"]))
    ]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    whole = calibration_of(logits, labels).compute()
    for name in ("case0-rank0", "case0-rank1", "case1-rank0", "case1-rank1"):
        reduced = ss.Calibration.load(tmp_path / f"{name}.json").compute()
        assert torch.equal(reduced.bins.count, whole.bins.count)
        for metric, value in whole.metrics().items():
            assert reduced.metrics()[metric] == pytest.approx(value, rel=1e-12), metric
    for rank in range(2):
        for mismatch in ("bins", "classwise", "measure"):
            assert "different options" in (tmp_path / f"{mismatch}{rank}").read_text()


def test_all_reduce_without_a_process_group_is_refused() -> None:
    with pytest.raises(ValueError, match="init_process_group"):
        ss.Calibration().all_reduce()


@pytest.mark.parametrize("harm", [{"brier": "inf"}, {"brier": 4.5}, {"brier": 1e300}, {"brier": "nan"}, {"nll": "nan"}])
def test_sums_that_no_data_gives_are_refused(harm: dict[str, float | str], tmp_path: Path) -> None:
    calibration = ss.Calibration()
    calibration.update(probs=torch.tensor([[0.0, 1.0], [1.0, 0.0]]), labels=torch.tensor([0, 0]))
    content = calibration.to_dict()
    assert ss.Calibration.from_dict(content).compute().brier == 1.0  # an infinite NLL is right here
    content["sums"] |= harm
    (tmp_path / "a.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="no data gives these sums"):
        ss.Calibration.load(tmp_path / "a.json")
