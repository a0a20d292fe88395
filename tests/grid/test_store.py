from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fake_results import fake_result
from singleshot.grid.job import Result
from singleshot.grid.store import ResultStore
from singleshot.grid.training_job import TrainingJob
from singleshot.metrics import Calibration
from singleshot.paper.methods import base_recipe, job_of

BASE = base_recipe("small", dataset="digits", model="resnet18")


def result(method: str = "baseline", seed: int = 0) -> Result:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(50, 10, generator=generator)
    labels = torch.randint(0, 10, (50,), generator=generator)
    passes = torch.randn(3, 50, 10, generator=generator)
    return fake_result(job_of(BASE, method, seed), logits=logits, labels=labels, passes=passes, seconds=2.5)


def test_a_reopened_store_has_identical_results(tmp_path: Path) -> None:
    store = ResultStore.open(tmp_path / "results")
    for method in ("baseline", "held_out_baseline", "vwci_star"):
        store.add(result(method))
    again = ResultStore.open(tmp_path / "results")
    assert not again.skipped
    assert {key: one.to_dict() for key, one in again.results.items()} == {
        key: one.to_dict() for key, one in store.results.items()
    }
    assert again[result().job].metrics() == result().metrics()


def test_missing_jobs_are_listed_once(tmp_path: Path) -> None:
    store = ResultStore.open(tmp_path)
    done, other = result(seed=0), result(seed=1)
    store.add(done)
    assert done.job in store
    assert store.missing([done.job, other.job, other.job]) == [other.job]


def test_the_file_is_plain_json_with_metrics(tmp_path: Path) -> None:
    store = ResultStore.open(tmp_path)
    store.add(result())
    path = store.paths[result().job.key]
    assert path == tmp_path / "digits" / "resnet18" / f"{result().job.key}.json"
    content = json.loads(path.read_text())
    assert content["recipe"]["seed"] == 0
    assert content["seconds"] == 2.5
    assert content["splits"]["test"]["metrics"]["ece"] == pytest.approx(result().metrics()["ece"])
    assert {"temperature", "fitted_on", "metrics"} <= set(content["rescaled"])
    assert content["environment"] == {"torch": "2"}


def test_a_file_without_the_environment_of_the_evaluation_is_read() -> None:
    content = result().to_dict()
    del content["measured_in"]
    assert Result.from_dict(content, TrainingJob, "old").to_dict() == result().to_dict()


def test_the_environment_of_the_evaluation_is_kept() -> None:
    elsewhere = replace(result(), measured_in={"revision": "abc"})
    assert Result.from_dict(elsewhere.to_dict(), TrainingJob, "new").measured_in == {"revision": "abc"}


def test_an_infinite_nll_can_be_read_back() -> None:
    certain = Calibration(bins=20)
    certain.update(probs=torch.tensor([[1.0, 0.0]]), labels=torch.tensor([1]))
    wrong = replace(result(), splits={"test": certain})
    content = json.loads(json.dumps(wrong.to_dict()))
    assert content["splits"]["test"]["metrics"]["nll"] is None
    assert Result.from_dict(content, TrainingJob, "new").test.compute().nll == math.inf
    content["splits"]["test"]["metrics"]["nll"] = 2.0
    with pytest.raises(ValueError, match=r"its nll is 2\.0, but its sums give None"):
        Result.from_dict(content, TrainingJob, "new")


def damaged(change: Any) -> str:
    content = json.loads(json.dumps(result().to_dict()))
    change(content)
    return json.dumps(content)


def _clear(state: dict[str, Any]) -> None:
    state["sums"] = {name: np.zeros_like(values).tolist() for name, values in state["sums"].items()}


def _brier(part: dict[str, Any], total: Any) -> None:
    part["calibration"]["sums"]["brier"] = total


HUGE = 10**400
DAMAGED = {
    "another version": (
        damaged(lambda c: c.update(format="singleshot.result/0")),
        "its format is 'singleshot.result/0'",
    ),
    "no format": ("{}", "its format is None"),
    "a list": ("[]", "its format is None"),
    "truncated": (damaged(lambda c: None)[:500], ""),
    "not text": ("\udcff\udcfe", ""),
    "nested": ("[" * 100_000, ""),
    "no test split": (damaged(lambda c: c["splits"].pop("test")), "damaged result"),
    "no state": (damaged(lambda c: c["splits"]["test"].pop("calibration")), "damaged result"),
    "impossible sums": (
        damaged(lambda c: c["rescaled"]["calibration"]["sums"].update(nll="nan")),
        "damaged result",
    ),
    "another metric": (
        damaged(lambda c: c["splits"]["test"]["metrics"].update(ece=0.5)),
        "its ece is 0.5, but its sums",
    ),
    "text for a metric": (damaged(lambda c: c["rescaled"]["metrics"].update(nll="high")), "damaged result"),
    "no metrics": (damaged(lambda c: c["splits"]["test"].pop("metrics")), "damaged result"),
    "text for seconds": (damaged(lambda c: c.update(seconds="long")), "damaged result"),
    "no seconds": (damaged(lambda c: c.update(seconds=float("nan"))), "damaged result"),
    "negative time": (damaged(lambda c: c.update(cpu_seconds=-1)), "damaged result"),
    "a temperature below 0": (damaged(lambda c: c["rescaled"].update(temperature=-1)), "damaged result"),
    "seconds beyond float64": (damaged(lambda c: c.update(seconds=HUGE)), "damaged result"),
    "processor time beyond float64": (damaged(lambda c: c.update(cpu_seconds=HUGE)), "damaged result"),
    "a temperature beyond float64": (damaged(lambda c: c["rescaled"].update(temperature=HUGE)), "damaged result"),
    "a learning rate beyond float64": (damaged(lambda c: c["recipe"].update(learning_rate=HUGE)), ""),
    "an infinite Brier score": (damaged(lambda c: _brier(c["splits"]["test"], "inf")), "no data gives these sums"),
    "an impossible Brier score": (damaged(lambda c: _brier(c["rescaled"], 101.0)), "no data gives these sums"),
    "data that is not an object": (damaged(lambda c: c.update(data="cifar100")), "damaged result"),
    "a count that is text": (
        damaged(lambda c: c["data"].update(test="many")),
        "an integer 'test', got 'many'",
    ),
    "a missing count": (damaged(lambda c: c["data"].pop("train")), "an integer 'train', got None"),
    "an environment that is text": (damaged(lambda c: c.update(measured_in="here")), "damaged result"),
    "an environment of pairs": (damaged(lambda c: c.update(environment=[["a", "b"]])), "damaged result"),
    "no examples": (damaged(lambda c: _clear(c["splits"]["test"]["calibration"])), "damaged result"),
    "no passes": (damaged(lambda c: _clear(c["variance"])), "damaged result"),
    "no temperature": (damaged(lambda c: c.update(rescaled=None)), "rescaled is missing"),
    "an unexpected split": (damaged(lambda c: c["splits"].update(other=c["splits"]["test"])), "its splits are"),
    "another recipe": (damaged(lambda c: c["recipe"].update(epochs=7)), "but its content has the key"),
    "an unknown field": (damaged(lambda c: c["recipe"].update(magic=7)), "magic"),
}


def test_damaged_files_are_skipped_reported_and_left_unchanged(tmp_path: Path) -> None:
    store = ResultStore.open(tmp_path)
    store.add(result(seed=1))
    bad = tmp_path / result(seed=0).job.folder / f"{result(seed=0).job.key}.json"
    for name, (text, reason) in DAMAGED.items():
        bad.write_text(text, encoding="utf-8", errors="surrogateescape")
        again = ResultStore.open(tmp_path)
        assert list(again.results) == [result(seed=1).job.key], name
        (skipped,) = again.skipped
        assert str(bad) in skipped, name
        assert reason in skipped, (name, skipped)
        assert skipped.endswith("; remove the file, or use the version that wrote it"), name
        assert bad.read_text(encoding="utf-8", errors="surrogateescape") == text, name


def test_a_second_file_of_a_run_is_skipped_and_kept(tmp_path: Path) -> None:
    store = ResultStore.open(tmp_path)
    store.add(result())
    path = store.paths[result().job.key]
    renamed, twin = path.with_name("0copy.json"), tmp_path / "zzz" / path.name
    twin.parent.mkdir()
    shutil.copy(path, renamed)
    shutil.copy(path, twin)
    again = ResultStore.open(tmp_path)
    assert again[result().job].to_dict() == result().to_dict()
    assert [str(renamed) in reason or str(twin) in reason for reason in again.skipped] == [True, True]
    assert all(f"holds run {result().job.key}" in reason for reason in again.skipped)
    assert path.exists()
    assert renamed.exists()
    assert twin.exists()


def test_partial_files_of_a_killed_write_are_ignored(tmp_path: Path) -> None:
    store = ResultStore.open(tmp_path)
    store.add(result())
    path = store.paths[result().job.key]
    for text in ("{", path.read_text()):
        left = path.parent / f".{path.name}.x1" / path.name
        left.parent.mkdir(exist_ok=True)
        left.write_text(text)
        again = ResultStore.open(tmp_path)
        assert (list(again.paths.values()), again.skipped) == ([path], [])


def test_refresh_reads_each_new_result_once(tmp_path: Path) -> None:
    mine, theirs = ResultStore.open(tmp_path), ResultStore.open(tmp_path)
    theirs.add(result(seed=0))
    mine.refresh()
    first = mine[result(seed=0).job]
    theirs.add(result(seed=1))
    mine.refresh()
    assert mine[result(seed=0).job] is first
    assert result(seed=1).job in mine


def test_a_file_instead_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("")
    with pytest.raises(ValueError, match="is a file; results need a folder"):
        ResultStore.open(tmp_path / "results")


def test_results_of_a_data_set_outside_stay_inside_the_store() -> None:
    recipe = base_recipe("small", dataset="../../images/birds", model="vgg16")
    assert job_of(recipe, "baseline", 0).folder == "birds/vgg16"
