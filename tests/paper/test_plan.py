from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from fake_results import fake_result
from singleshot.grid.job import Job, job_of
from singleshot.grid.result import Result
from singleshot.grid.runner import ready
from singleshot.grid.store import ResultStore
from singleshot.models import list_models
from singleshot.paper.exhibits import EXHIBITS, Grid, chosen_smoothing, selection_jobs
from singleshot.paper.methods import EPSILONS, SMALL_MODELS, base_recipe
from singleshot.paper.published import published
from singleshot.paper.request import Request

BASE = base_recipe("small", dataset="digits", model="resnet18")


def result(job: Job, sharpness: float = 1.0) -> Result:
    labels = torch.arange(40) % 10
    logits = torch.nn.functional.one_hot((labels + (torch.arange(40) < 10)) % 10, 10).double() * sharpness
    return fake_result(job, logits=logits, labels=labels)


def test_a_grid_has_every_method_of_its_exhibits_once_for_every_seed(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    grid = Grid(("table1", "tableB", "fig5"), (BASE,), seeds=2)
    jobs = grid.jobs(store)
    assert len({job.key for job in jobs}) == len(jobs)
    named = [name for name in EXHIBITS["table1"] if name != "smoothing"]
    expected = {job_of(BASE, name, seed).key for name in named for seed in range(2)}
    expected |= {job.key for job in selection_jobs(BASE)}
    assert {job.key for job in jobs} == expected
    assert [job.recipe.seed for job in jobs] == sorted(job.recipe.seed for job in jobs)


def test_label_smoothing_follows_the_held_out_images_once_they_have_spoken(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    grid = Grid(("table1",), (BASE,), seeds=2)
    candidates = selection_jobs(BASE)
    before = {job.key for job in grid.jobs(store)}
    assert {job.recipe.validation for job in candidates} == {0.1}
    # of the logits [s, 0, 0, ...], right in 3 of 4, s = 3 has the least NLL of these
    for sharpness, job in zip((0.5, 3.0, 8.0, 20.0, 30.0, 40.0), candidates, strict=True):
        assert chosen_smoothing(BASE, store) is None
        store.add(result(job, sharpness))
    assert chosen_smoothing(BASE, store) == f"smoothing_{EPSILONS[1]:g}"
    assert before <= {job.key for job in grid.jobs(store)}  # what counts as done is not forgotten again
    added = [job for job in grid.jobs(store) if job.key not in before]
    assert [(job.recipe.label_smoothing, job.recipe.validation, job.recipe.seed) for job in added] == [
        (EPSILONS[1], 0.0, 0),
        (EPSILONS[1], 0.0, 1),
    ]


def test_a_run_that_starts_from_another_waits_for_it(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    star, baseline = job_of(BASE, "vwci_star", 0), job_of(BASE, "baseline", 0)
    assert ready([star, baseline], store) == [baseline]
    store.add(result(baseline))
    assert ready([star, baseline], store) == [star]
    store.add(result(star))
    assert not ready([star, baseline], store)


def test_an_unknown_exhibit_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="exhibit='table9' is unknown; choose one of table1, table2"):
        Grid(("table9",), (BASE,), seeds=1)


@pytest.mark.parametrize("model", list_models())
@pytest.mark.parametrize("dataset", ["digits", "cifar100", "tiny_imagenet"])
def test_every_method_has_a_valid_recipe_at_every_scale(dataset: str, model: str, tmp_path: Path) -> None:
    for scale in ("paper", "small"):
        request = Request(tuple(EXHIBITS), dataset, (model,), seeds=1, scale=scale)
        (grid,) = request.grids()
        for job in grid.jobs(ResultStore(tmp_path)):
            assert job.recipe == job.recipe.resolved()
            assert (job.recipe.dataset, job.recipe.model) == (dataset, model)


def test_without_a_data_set_each_table_has_the_papers() -> None:
    for exhibit in EXHIBITS:
        found = {
            (base.dataset, base.model) for grid in Request((exhibit,), scale="paper").grids() for base in grid.bases
        }
        if exhibit.startswith("table"):
            assert found == {(row.dataset, row.model) for row in published(exhibit.removeprefix("table"))}
        assert {dataset for dataset, _ in found} <= {"cifar100", "tiny_imagenet"}
    (table3,) = Request(("table3",), dataset="digits", scale="paper").grids()
    assert [(base.dataset, base.model) for base in table3.bases] == [("digits", "resnet34"), ("digits", "vgg16")]
    small = Request(("table1", "tableA", "fig2")).grids()
    assert [(grid.exhibits, {base.dataset for base in grid.bases}) for grid in small] == [
        (("table1", "fig2"), {"cifar100"}),
        (("tableA",), {"tiny_imagenet"}),
    ]
    assert all(tuple(base.model for base in grid.bases) == SMALL_MODELS for grid in small)


def test_a_folder_is_the_same_run_from_wherever_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "birds").mkdir()
    monkeypatch.chdir(tmp_path)
    spelled = [Request(("fig2",), dataset=name).grids() for name in ("birds", "./birds", str(tmp_path / "birds"))]
    assert spelled[0] == spelled[1] == spelled[2]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request(("table9",)), "exhibit='table9' is unknown"),
        (Request(("table1",), models=("resnet50",)), "model='resnet50' is unknown; choose one of"),
        (Request(("table1",), seeds=0), "seeds must be a whole number of at least 1"),
        (Request(("table1",), seeds=10**9), "seeds must be at most 1000"),
        (Request(("table1",), scale="huge"), "scale='huge' is unknown; choose one of paper, small"),  # type: ignore[arg-type]
    ],
)
def test_a_request_is_checked(request_: Request, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        request_.grids()


def test_a_request_is_kept_beside_its_results(tmp_path: Path) -> None:
    request = Request(("table1", "fig2"), "digits", ("vgg16",), 2, "small")
    request.save(tmp_path)
    assert Request.load(tmp_path) == request
    with pytest.raises(ValueError, match="holds no grid: there is no grid"):
        Request.load(tmp_path / "elsewhere")
    for text in ("{", "[]", "{}", json.dumps({"exhibits": [], "models": [], "magic": 1})):
        (tmp_path / "grid.json").write_text(text)
        with pytest.raises(ValueError, match=r"grid\.json is damaged"):
            Request.load(tmp_path)
