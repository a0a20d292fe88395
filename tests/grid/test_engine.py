from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

import torch

from fake_results import fake_result
from singleshot.grid.engine import GridWatcher, JobQueue, Outcome, ReadyJobs, run_grid
from singleshot.grid.job import Job, Result
from singleshot.grid.store import ResultStore
from singleshot.grid.training_job import TrainingJob
from singleshot.paper.experiments import PaperGrid, smoothing_candidates
from singleshot.paper.methods import EPSILONS, job_of
from small_grids import Recorder, tiny

BASE = tiny()
GRID = PaperGrid(("table3",), (BASE,), seeds=2)
BEST = EPSILONS[2]


class FakeEngine:
    """Returns fake results, in which one ε of label smoothing is best on held-out images."""

    def __init__(self, failing: Sequence[Job] = ()) -> None:
        self.failing = [job.key for job in failing]
        self.started: list[str] = []

    def run(self, ready_jobs: ReadyJobs, watcher: GridWatcher) -> Generator[Outcome, None, None]:
        jobs = JobQueue(ready_jobs, watcher)
        while (job := jobs.take()) is not None:
            self.started.append(job.key)
            yield Outcome(job, None, "failed") if job.key in self.failing else Outcome(job, fake(job))


def fake(job: Job) -> Result:
    assert isinstance(job, TrainingJob)
    sharpness = 2.0 if job.recipe.label_smoothing == BEST else 0.4
    return fake_result(job, logits=torch.tensor([[sharpness, 0.0]]), labels=torch.tensor([0]))


def test_runs_start_as_soon_as_their_requirements_are_met_seed_by_seed(tmp_path: Path) -> None:
    store, engine = ResultStore.open(tmp_path), FakeEngine()
    assert run_grid(GRID.jobs, store, engine) == []
    started = engine.started
    assert len(set(started)) == len(started)
    assert set(started) == set(ResultStore.open(tmp_path).results)
    assert started[:3] == [job_of(BASE, method, seed=0).key for method in ("baseline", "vwci", "vwci_star")]
    last_candidate = max(started.index(job.key) for job in smoothing_candidates(BASE))
    assert started[last_candidate + 1] == job_of(BASE, f"smoothing_{BEST:g}", seed=0).key
    seeds = [job.recipe.seed for key in started for job in GRID.jobs(store) if job.key == key]
    assert seeds == sorted(seeds)

    again = FakeEngine()
    assert run_grid(GRID.jobs, ResultStore.open(tmp_path), again) == []
    assert again.started == []


def test_the_result_of_another_run_is_an_error() -> None:
    job, other = job_of(BASE, "focal", seed=6), job_of(BASE, "focal", seed=7)
    outcome = Outcome.from_answer(job, ("result", fake(other).to_dict()))
    assert (outcome.result, outcome.error) == (
        None,
        f"its worker returned the result of run {other.key}; do the versions differ?",
    )


def test_jobs_that_require_a_failed_run_are_not_started(tmp_path: Path) -> None:
    baseline, candidate = job_of(BASE, "baseline", seed=0), smoothing_candidates(BASE)[0]
    engine, store, recorder = FakeEngine(failing=[baseline, candidate]), ResultStore.open(tmp_path), Recorder()
    failed = run_grid(GRID.jobs, store, engine, recorder)
    assert [outcome.job for outcome in failed] == [baseline, candidate]
    started = engine.started
    assert len(set(started)) == len(started) == len(recorder.outcomes)  # a failed run is not retried in the same call
    assert job_of(BASE, "vwci_star", seed=0).key not in started
    assert job_of(BASE, "vwci_star", seed=1).key in started
    assert not {job_of(BASE, f"smoothing_{e:g}", seed).key for e in EPSILONS for seed in (0, 1)} & {*started}

    assert run_grid(GRID.jobs, store, FakeEngine()) == []  # the next call retries them
    assert not store.missing(GRID.jobs(store))
