from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from singleshot.common.files import exclusive
from singleshot.data import Dataset
from singleshot.grid.progress import estimate_seconds, progress_of
from singleshot.grid.store import ResultStore
from singleshot.paper.methods import job_of
from singleshot.training.recipe import Recipe
from small_grids import tiny

BASE = tiny()


def test_progress_is_read_from_disk(tmp_path: Path) -> None:
    jobs = [job_of(BASE, method, seed=0) for method in ("baseline", "vwci", "focal")]
    store, workspace = ResultStore(tmp_path / "results"), tmp_path / "runs"
    assert {progress_of(job, store, workspace) for job in jobs} == {("waiting", 0.0)}
    store.add(jobs[0].execute(workspace))
    jobs[1].execute(workspace)
    found = [progress_of(job, store, workspace) for job in jobs]
    assert found == [("done", 1.0), ("stopped", 1.0), ("waiting", 0.0)]
    with exclusive(workspace / jobs[1].key):
        assert progress_of(jobs[1], store, workspace) == ("running", 1.0)


def test_estimates_are_proportional_to_the_steps() -> None:
    short, long = job_of(BASE, "baseline", 0), job_of(replace(BASE, epochs=20, evaluate_every=20), "baseline", 0)
    focal = job_of(BASE, "focal", 0)
    star, vwci = job_of(BASE, "vwci_star", 0), job_of(BASE, "vwci", 0)
    seconds = estimate_seconds([short, long, focal, star, vwci])
    assert seconds[long.key] == pytest.approx(10 * seconds[short.key])
    assert seconds[focal.key] == seconds[short.key]  # timed once
    assert 0 < seconds[star.key] < seconds[vwci.key] / 4


def test_steps_before_the_loss_are_priced_as_cross_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    def seconds_per_step(recipe: Recipe, dataset: Dataset, batch: int) -> float:
        return 100.0 if recipe.loss == "vwci" else 1.0

    monkeypatch.setattr("singleshot.grid.progress._seconds_per_step", seconds_per_step)
    baseline, tuned = job_of(BASE, "held_out_baseline", 0), job_of(BASE, "auto_vwci", 0)
    seconds = estimate_seconds([baseline, tuned])
    steps = seconds[baseline.key]
    assert seconds[tuned.key] == steps // 2 + 100 * (steps - steps // 2)  # the loss starts in the middle


@pytest.mark.parametrize("method", ["auto_vwci", "auto_smoothing", "adafocal"])
def test_a_tuned_loss_can_be_timed_alone(method: str) -> None:
    job = job_of(BASE, method, 0)
    assert estimate_seconds([job])[job.key] > 0
