from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from singleshot.common.environment import describe_environment
from singleshot.common.splits import split_training
from singleshot.data import load_dataset
from singleshot.evaluation.loaded_run import LoadedRun
from singleshot.evaluation.shift import SHIFTS, STRENGTHS
from singleshot.grid import training_job
from singleshot.grid.job import FORMAT, Result
from singleshot.grid.training_job import MEASURED_PASSES, TrainingJob
from singleshot.metrics import Calibration, VarianceHistogram, risk_coverage
from singleshot.paper.methods import METHODS, base_recipe, job_of
from singleshot.posthoc import TemperatureScaling
from singleshot.sampling import sample
from singleshot.training import trainer
from singleshot.training.recipe import Recipe
from singleshot.training.run import Run
from small_grids import numbers, tiny

BASE = base_recipe("small", dataset="digits", model="resnet18")
TINY = tiny()


def test_json_round_trip_keeps_the_key_which_is_unique_and_the_title_names_the_method() -> None:
    keys: dict[str, list[str]] = {}
    for method in METHODS:
        job = job_of(BASE, method, seed=2)
        again = TrainingJob.from_dict(json.loads(json.dumps(job.to_dict())))
        assert (again, again.key) == (job, job.key)
        assert job.title == f"digits resnet18, {METHODS[method].title}, seed 2"
        keys.setdefault(job.key, []).append(method)
    assert [names for names in keys.values() if len(names) > 1] == [["vwci", "vwci_T5"]]
    with pytest.raises(ValueError, match=r"method='ci_2' is unknown; choose one of baseline, ci_1, ci_0"):
        job_of(BASE, "ci_2", seed=0)


CHANGED: dict[str, Any] = {
    "dataset": "mnist", "image_size": 24, "train_images": 99, "validation": 0.2, "padding": 1, "mirror": True,
    "model": "resnet34", "width": 0.3, "noise": 0.4, "loss": "focal", "samples": 7, "measure": "hellinger",
    "differentiate_alpha": True, "beta": 0.7, "gamma": 0.7, "label_smoothing": 0.7, "focus": 0.7, "last_share": 0.7,
    "epochs": 7, "batch_size": 7, "learning_rate": 0.7, "milestones": (0.7,), "decay": 0.7, "momentum": 0.7,
    "weight_decay": 0.7, "clip_gradient": 0.7, "seed": 7, "precision": "bfloat16", "evaluate_every": 7, "track": True,
    "gradient_passes": 1, "strength": 0.7, "classes": 7, "give_back": 0.1, "alpha": "permuted", "penalty": 0.7,
}  # fmt: skip
NOT_IN_KEY: dict[str, Any] = {
    "device": "cpu",
    "memory": "low",
    "compile": True,
    "channels_last": False,
    "start_from": "runs/elsewhere",
}


def test_the_key_depends_on_every_field_that_determines_the_result() -> None:
    assert set(CHANGED) | set(NOT_IN_KEY) == {field.name for field in fields(Recipe)}
    recipe = BASE.resolved()
    keys = {TrainingJob(replace(recipe, **{name: value})).key for name, value in CHANGED.items()}
    assert len({*keys, TrainingJob(recipe).key}) == len(CHANGED) + 1
    for name, value in NOT_IN_KEY.items():
        assert TrainingJob(replace(recipe, **{name: value})).key == TrainingJob(recipe).key
    assert TrainingJob(recipe, label="a").key == TrainingJob(recipe, label="b").key


def test_keys_of_stored_runs_are_stable() -> None:
    base = base_recipe("small", dataset="cifar100", model="resnet18")
    assert job_of(base, "baseline", seed=0).key == "67ef63d5214a0b2d"
    assert job_of(base, "vwci", seed=0).key == "c6c6d1b590dfe038"
    assert job_of(base, "vwci_total_variation", seed=0).key == "f9dac7a4d9dd53b9"
    job = job_of(BASE, "vwci_star", seed=1)
    content = job.to_dict()
    for recipe in (content["recipe"], content["start"]):
        assert recipe.pop("focus") == Recipe().focus  # as in files written before this field was added
    assert TrainingJob.from_dict(content).key == job.key


def test_a_start_is_part_of_the_key_and_required() -> None:
    star, baseline = job_of(BASE, "vwci_star", seed=1), job_of(BASE, "baseline", seed=1)
    assert star.requires == baseline
    assert star.key != TrainingJob(star.recipe).key
    assert (star.recipe.last_share, star.recipe.start_from) == (0.2, None)
    assert baseline.requires is None


def test_invalid_content_is_refused() -> None:
    content = job_of(BASE, "vwci", 0).to_dict()
    changes: list[tuple[dict[str, Any], str]] = [
        ({"recipe": 3}, "there.json: damaged result"),
        ({"start": []}, "there.json: damaged result"),
        ({"recipe": {**content["recipe"], "epochs": "ten"}}, "epochs must be"),
        ({"recipe": {**content["recipe"], "loss": "magic"}}, "loss must be one of"),
        ({"recipe": {**content["recipe"], "extra": 1}}, "extra"),
    ]
    for change, message in changes:
        with pytest.raises(ValueError, match=message):
            Result.from_dict({"format": FORMAT, **content, **change}, TrainingJob, source="there.json")


def test_results_agree_with_a_direct_evaluation(tmp_path: Path) -> None:
    job = job_of(TINY, "held_out_baseline", seed=3)
    result = job.execute(tmp_path)
    run = Run.open(tmp_path / job.key)
    for split in ("test", "validation"):
        direct = LoadedRun.open(run.folder, split=split).evaluate(replicates=0).result
        assert result.metrics(split) == pytest.approx(direct.metrics())
    assert result.rescaled is not None
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


def test_a_tracked_job_has_a_curve_and_details(tmp_path: Path) -> None:
    job = job_of(replace(TINY, track=True, evaluate_every=1), "auto_vwci", seed=3)
    result = job.execute(tmp_path)
    assert result.curve is not None
    assert [point["epoch"] for point in result.curve] == list(range(1, job.recipe.epochs + 1))
    assert all({"train", "unused"} <= set(point) for point in result.curve)
    assert set(result.splits) == {"test"}  # the held-out images were trained on at the end
    assert result.details is not None
    examples = LoadedRun.open(tmp_path / job.key).evaluate(replicates=0).examples
    assert examples is not None
    assert result.details["aurc"] == pytest.approx(risk_coverage(examples).aurc)
    assert set(result.details["shift"]) == set(SHIFTS)
    assert all(len(strengths) == STRENGTHS for strengths in result.details["shift"].values())
    for part in ("test", "train"):
        found = result.details["errors"][part]
        assert all(found[name] is None or 0 <= found[name] <= 1 for name in ("alpha", "confidence"))
    again = Result.from_dict(json.loads(json.dumps(result.to_dict())), TrainingJob, "here")
    assert (again.curve, again.details) == (result.curve, result.details)


def test_the_same_job_gives_the_same_result_everywhere(tmp_path: Path) -> None:
    job = job_of(TINY, "vwci_star", seed=1)
    first = job.execute(tmp_path / "a")
    assert job.requires is not None
    assert {folder.name for folder in (tmp_path / "a").iterdir()} == {job.key, job.requires.key}
    job.requires.execute(tmp_path / "b")  # the starting run exists
    assert numbers(job.execute(tmp_path / "b")) == numbers(first)
    (tmp_path / "a").rename(tmp_path / "c")
    assert numbers(job.execute(tmp_path / "c")) == numbers(first)  # already trained, in a folder that was moved


def test_a_result_records_where_it_was_trained_and_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_of(TINY, "baseline", seed=0)
    trained = job.execute(tmp_path)
    assert (trained.environment, trained.measured_in) == (describe_environment(), None)
    assert trained.rescaled is not None
    assert (trained.rescaled.fitted_on, trained.rescaled.bounded, set(trained.splits)) == ("train", False, {"test"})
    assert (trained.device, trained.data["train"] + trained.data["test"], trained.data["classes"]) == ("cpu", 1797, 10)
    assert trained.cpu_seconds

    other = {**describe_environment(), "cores": 1024}
    for module in (training_job, trainer):
        monkeypatch.setattr(module, "describe_environment", lambda: other)
    assert job.execute(tmp_path).measured_in is None  # another machine with the same versions
    other["revision"] = "another"
    measured = job.execute(tmp_path)
    assert (measured.environment, measured.measured_in) == (trained.environment, other)
