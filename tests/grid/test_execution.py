from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from singleshot.common.environment import describe_environment
from singleshot.common.files import exclusive
from singleshot.common.splits import split_training
from singleshot.data import load_dataset
from singleshot.evaluation.runs import evaluate_run
from singleshot.grid import execution
from singleshot.grid.execution import MEASURED_PASSES, execute
from singleshot.grid.job import Job, job_of
from singleshot.grid.progress import estimated_seconds, progress_of
from singleshot.grid.result import Result
from singleshot.grid.store import ResultStore
from singleshot.metrics import Calibration, VarianceHistogram
from singleshot.paper.methods import base_recipe
from singleshot.posthoc import TemperatureScaling
from singleshot.sampling import sample
from singleshot.training import trainer as runner
from singleshot.training.run import Run

BASE = replace(
    base_recipe("small", dataset="digits", model="resnet18"), width=0.0625, epochs=2, evaluate_every=2, image_size=8
)


def numbers(result: Result) -> dict[str, object]:
    """Everything but when and where it was made."""
    place = ("seconds", "cpu_seconds", "environment", "measured_in")
    return {name: value for name, value in result.to_dict().items() if name not in place}


def test_a_result_is_what_the_run_gives_by_hand(tmp_path: Path) -> None:
    job = job_of(BASE, "held_out_baseline", seed=3)
    result = execute(job, tmp_path)
    run = Run.open(tmp_path / job.key)
    for split in ("test", "validation"):
        by_hand = evaluate_run(run.folder, split=split, replicates=0).result
        assert result.metrics(split) == pytest.approx(by_hand.metrics())
    assert (result.rescaled.fitted_on, result.seconds > 0) == ("validation", True)

    dataset = load_dataset("digits", image_size=8)
    _, held_out = split_training(dataset.train.labels, validation=0.1, train_images=100)
    model, normalization = run.load_model(), run.normalization()
    with torch.no_grad():
        known = model(normalization(dataset.train.images[held_out]))
        test = model(normalization(dataset.test.images))
    scaling = TemperatureScaling.fit(known, dataset.train.labels[held_out])
    assert result.rescaled.temperature == pytest.approx(scaling.temperature, rel=1e-3)
    rescaled = Calibration(bins=20)
    rescaled.update(logits=test / result.rescaled.temperature, labels=dataset.test.labels)
    expected = rescaled.compute().metrics()
    assert result.rescaled.calibration.compute().metrics()["nll"] == pytest.approx(expected["nll"], rel=1e-4)

    assert result.variance is not None
    passes = VarianceHistogram(bins=20)
    for number, start in enumerate(range(0, len(dataset.test), 128)):
        images, labels = dataset.test.images[start : start + 128], dataset.test.labels[start : start + 128]
        with torch.no_grad():
            logits = sample(model, normalization(images), samples=MEASURED_PASSES, seed=number)
        passes.update(logits=logits, labels=labels)
    assert result.variance.to_dict() == passes.to_dict()


def test_without_held_out_images_the_temperature_is_fitted_on_the_training_images(tmp_path: Path) -> None:
    result = execute(job_of(BASE, "baseline", seed=0), tmp_path)
    assert (result.rescaled.fitted_on, set(result.splits)) == ("train", {"test"})
    assert not result.rescaled.bounded
    assert (result.device, result.data["train"] + result.data["test"], result.data["classes"]) == ("cpu", 1797, 10)
    assert result.cpu_seconds is not None
    assert result.cpu_seconds > 0


def test_a_run_that_starts_from_another_goes_on_after_its_folder_was_moved(tmp_path: Path) -> None:
    job = job_of(BASE, "vwci_star", seed=1)
    before = execute(job, tmp_path / "here")
    (tmp_path / "here").rename(tmp_path / "there")
    assert numbers(execute(job, tmp_path / "there")) == numbers(before)


def test_the_same_job_gives_the_same_result_here_and_there(tmp_path: Path) -> None:
    job = job_of(BASE, "vwci_star", seed=1)
    here = execute(job, tmp_path / "here")
    assert {folder.name for folder in (tmp_path / "here").iterdir()} == {job.key, Job(job.start or BASE).key}
    execute(job_of(BASE, "baseline", seed=1), tmp_path / "there")  # the start is there already
    assert numbers(execute(job, tmp_path / "there")) == numbers(here)
    assert numbers(execute(job, tmp_path / "here")) == numbers(here)  # trained, only measured


def test_a_result_says_where_it_was_trained_and_where_it_was_measured_if_that_is_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(BASE, "baseline", seed=0)
    trained = execute(job, tmp_path)
    assert (trained.environment, trained.measured_in) == (describe_environment(), None)

    elsewhere = {**describe_environment(), "cores": 1024}
    for module in (execution, runner):
        monkeypatch.setattr(module, "describe_environment", lambda: elsewhere)
    assert execute(job, tmp_path).measured_in is None  # another machine measures the same
    elsewhere["revision"] = "another"
    measured = execute(job, tmp_path)
    assert (measured.environment, measured.measured_in) == (trained.environment, elsewhere)


def test_progress_is_read_from_disk(tmp_path: Path) -> None:
    jobs = [job_of(BASE, method, seed=0) for method in ("baseline", "vwci", "focal")]
    store = ResultStore(tmp_path / "results")
    workspace = tmp_path / "runs"
    assert {one.state for one in progress_of(jobs, store, workspace)} == {"waiting"}
    result = execute(jobs[0], workspace)
    execute(jobs[1], workspace)
    store.add(result)
    found = [(one.state, one.share) for one in progress_of(jobs, store, workspace)]
    assert found == [("done", 1.0), ("stopped", 1.0), ("waiting", 0.0)]
    with exclusive(workspace / jobs[1].key):
        running = progress_of(jobs, store, workspace)[1]
    assert (running.state, running.to_dict()["title"]) == ("running", "digits resnet18, VWCI, seed 0")


def test_a_longer_run_is_estimated_longer_and_only_its_own_steps_count() -> None:
    short, long = job_of(BASE, "baseline", 0), job_of(replace(BASE, epochs=20, evaluate_every=20), "baseline", 0)
    focal = job_of(BASE, "focal", 0)
    star, vwci = job_of(BASE, "vwci_star", 0), job_of(BASE, "vwci", 0)
    seconds = estimated_seconds([short, long, focal, star, vwci])
    assert seconds[long.key] == pytest.approx(10 * seconds[short.key])
    assert seconds[focal.key] == seconds[short.key]  # the same steps, tried once
    assert 0 < seconds[star.key] < seconds[vwci.key] / 4
