from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from fake_results import fake_result
from singleshot.grid.job import Result
from singleshot.grid.store import ResultStore
from singleshot.grid.training_job import TrainingJob
from singleshot.models import list_models
from singleshot.paper.experiments import (
    EXPERIMENTS,
    REQUEST_FILE,
    GridRequest,
    PaperGrid,
    select_smoothing,
    smoothing_candidates,
)
from singleshot.paper.methods import EPSILONS, METHODS, SMALL_MODELS, base_recipe, job_of
from singleshot.paper.published import published_rows
from singleshot.paper.regimes import REGIMES
from singleshot.paper.tables import TITLES

BASE = base_recipe("small", dataset="digits", model="resnet18")


def request_for(*experiments: str, **changes: Any) -> GridRequest:
    fields: dict[str, Any] = {"dataset": None, "models": (), "seeds": 3, "scale": "small", **changes}
    return GridRequest(experiments, **fields)


def result(job: TrainingJob, sharpness: float = 1.0) -> Result:
    labels = torch.arange(40) % 10
    logits = torch.nn.functional.one_hot((labels + (torch.arange(40) < 10)) % 10, 10).double() * sharpness
    return fake_result(job, logits=logits, labels=labels)


def test_a_grid_has_every_method_once_per_seed(tmp_path: Path) -> None:
    jobs = PaperGrid(("table1", "tableB", "fig5"), (BASE,), seeds=2).jobs(ResultStore(tmp_path))
    methods = [name for name in EXPERIMENTS["table1"] if name != "smoothing"]
    expected = {job_of(BASE, name, seed).key for name in methods for seed in range(2)}
    expected |= {job.key for job in smoothing_candidates(BASE)}
    assert {job.key for job in jobs} == expected
    assert len(expected) == len(jobs)
    assert [job.recipe.seed for job in jobs] == sorted(job.recipe.seed for job in jobs)


def test_held_out_images_select_the_label_smoothing(tmp_path: Path) -> None:
    store, grid = ResultStore(tmp_path), PaperGrid(("table1",), (BASE,), seeds=2)
    candidates = smoothing_candidates(BASE)
    before = {job.key for job in grid.jobs(store)}
    assert {job.recipe.validation for job in candidates} == {0.1}
    # With logits [s, 0, 0, ...] and 3 of 4 examples correct, s = 3 has the lowest NLL of these.
    for sharpness, job in zip((0.5, 3.0, 8.0, 20.0, 30.0, 40.0), candidates, strict=True):
        assert select_smoothing(BASE, store) is None
        store.add(result(job, sharpness))
    assert select_smoothing(BASE, store) == f"smoothing_{EPSILONS[1]:g}"
    assert before <= {job.key for job in grid.jobs(store)}
    added = [job for job in grid.jobs(store) if job.key not in before]
    assert [(job.recipe.label_smoothing, job.recipe.validation, job.recipe.seed) for job in added] == [
        (EPSILONS[1], 0.0, 0),
        (EPSILONS[1], 0.0, 1),
    ]


@pytest.mark.parametrize("dataset", ["digits", "cifar100", "tiny_imagenet"])
def test_every_method_has_a_valid_recipe_at_every_scale(dataset: str, tmp_path: Path) -> None:
    for model in list_models():
        for scale in ("paper", "small"):
            (grid,) = request_for(*EXPERIMENTS, dataset=dataset, models=(model,), seeds=1, scale=scale).grids()
            for job in grid.jobs(ResultStore(tmp_path)):
                assert job.recipe == job.recipe.resolved()
                assert (job.recipe.dataset, job.recipe.model) == (dataset, model)


def test_the_default_networks_and_data_sets_are_those_of_the_paper() -> None:
    for experiment in EXPERIMENTS:
        grids = request_for(experiment, scale="paper").grids()
        found = {(base.dataset, base.model) for grid in grids for base in grid.bases}
        if experiment.startswith("table"):
            assert found == {(row.dataset, row.model) for row in published_rows(experiment.removeprefix("table"))}
        assert {dataset for dataset, _ in found} <= {"cifar100", "tiny_imagenet"}
    (table3,) = request_for("table3", dataset="digits", scale="paper").grids()
    assert [(base.dataset, base.model) for base in table3.bases] == [("digits", "resnet34"), ("digits", "vgg16")]
    small = request_for("table1", "tableA", "fig2").grids()
    assert [(grid.experiments, {base.dataset for base in grid.bases}) for grid in small] == [
        (("table1", "fig2"), {"cifar100"}),
        (("tableA",), {"tiny_imagenet"}),
    ]
    assert all(tuple(base.model for base in grid.bases) == SMALL_MODELS for grid in small)


def test_a_folder_of_images_is_named_by_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "birds").mkdir()
    monkeypatch.chdir(tmp_path)
    birds = str(tmp_path / "birds")
    expected = {
        "digits": "digits", "digit": "digit", "a/b": str(tmp_path / "a/b"), "birds": birds, "./birds": birds,
        birds: birds,
    }  # fmt: skip
    for name, dataset in expected.items():
        assert request_for("fig2", dataset=name).grids()[0].bases[0].dataset == dataset


def test_requests_are_checked() -> None:
    for request, message in [
        (request_for("table9"), "experiment='table9' is unknown; choose one of table1, table2"),
        (request_for("table1", models=("resnet50",)), "model='resnet50' is unknown; choose one of"),
        (request_for("fig2", dataset=""), "dataset must be a name or a folder"),
    ]:
        with pytest.raises(ValueError, match=message):
            request.grids()


REQUEST = request_for("table1", "fig2", dataset="digits", models=("resnet18",), seeds=2)


def test_a_saved_request_is_loaded_again(tmp_path: Path) -> None:
    for request in (REQUEST, request_for("table3")):
        assert request.save(tmp_path)
        assert not request.save(tmp_path)
        assert GridRequest.load(tmp_path) == request
    assert json.loads((tmp_path / REQUEST_FILE).read_text())["exhibits"] == ["table3"]  # the name in version 0.1


def test_damaged_requests_are_refused(tmp_path: Path) -> None:
    path = tmp_path / REQUEST_FILE
    content = msgspec.to_builtins(REQUEST)
    changes: list[dict[str, Any]] = [
        {"dataset": 5}, {"dataset": ["digits"]}, {"models": "resnet18"}, {"models": [["resnet18"]]},
        {"exhibits": "table1"}, {"exhibits": [{}]}, {"seeds": "3"}, {"seeds": None}, {"seeds": 0}, {"seeds": 1001},
        {"scale": ["small"]},
        {"scale": "huge"}, {"magic": 7},
    ]  # fmt: skip
    for change in changes:
        path.write_text(json.dumps({**content, **change}))
        message = rf"{REQUEST_FILE} is damaged \(.*{next(iter(change))}.*; repeat the original command"
        with pytest.raises(ValueError, match=message):
            GridRequest.load(tmp_path)
    for text in ("", "[]", "7", "{}", '{"a": 1}', '{"exhibits": []}', "[" * 100_000):
        path.write_text(text)
        with pytest.raises(ValueError, match=f"{REQUEST_FILE} is damaged"):
            GridRequest.load(tmp_path)
    with pytest.raises(ValueError, match=r"grid\.json holds no grid"):
        GridRequest.load(path)


def test_evidence_is_a_grid_for_each_regime_and_not_part_of_the_paper(tmp_path: Path) -> None:
    request = request_for("evidence", seeds=2)
    grids = request.grids()
    assert [grid.bases for grid in grids] == [(regime.recipe,) for regime in REGIMES.values()]
    (grid,) = msgspec.structs.replace(request, regimes=("hard-resnet18",)).grids()
    assert grid.bases == (REGIMES["hard-resnet18"].recipe,)
    jobs = grid.jobs(ResultStore(tmp_path))
    trained = {method: job_of(grid.bases[0], method, seed=1) for method in METHODS}
    assert {"baseline", "held_out_baseline", "ci_0.1"} <= set(grid.methods)
    assert all(method == "smoothing" or trained[method] in jobs for method in grid.methods)
    assert {row for regime in REGIMES.values() for row in regime.rows} <= TITLES.keys()
    assert all(job.recipe.track for job in jobs)
    with pytest.raises(ValueError, match="regime"):
        msgspec.structs.replace(request, regimes=("easy",)).grids()
