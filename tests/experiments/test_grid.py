from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

import torch

from fake_results import fake_result
from singleshot.experiments.engines import GridWatcher, Outcome
from singleshot.experiments.grid import run_grid
from singleshot.experiments.job import Job, job_of
from singleshot.experiments.methods import EPSILONS
from singleshot.experiments.plan import Grid, selection_jobs
from singleshot.experiments.result import Result
from singleshot.experiments.store import ResultStore
from small_grids import Listener, tiny

BASE = tiny()
GRID = Grid(("table3",), (BASE,), seeds=2)
BEST = EPSILONS[2]


class PretendedEngine:
    """Makes up its results: held-out images like one strength of label smoothing best."""

    def __init__(self, failing: Sequence[Job] = ()) -> None:
        self.failing = [job.key for job in failing]
        self.rounds: list[list[str]] = []

    def run(self, jobs: Sequence[Job], watcher: GridWatcher) -> Generator[Outcome, None, None]:
        self.rounds.append([job.key for job in jobs])
        for job in jobs:
            watcher.started(job)
            if job.key in self.failing:
                yield Outcome(job, None, "it was told to fail")
            else:
                yield Outcome(job, pretended(job))


def pretended(job: Job) -> Result:
    sharpness = 2.0 if job.recipe.epsilon == BEST else 0.4
    return fake_result(job, logits=torch.tensor([[sharpness, 0.0]]), labels=torch.tensor([0]))


def test_runs_that_depend_on_others_come_after_them(tmp_path: Path) -> None:
    store, engine, listener = ResultStore.open(tmp_path), PretendedEngine(), Listener()
    assert run_grid(GRID, store, engine, watcher=listener) == []
    first, second = engine.rounds
    assert {job.key for job in selection_jobs(BASE)} < set(first)
    later = [job_of(BASE, method, seed) for seed in (0, 1) for method in ("vwci_star", f"smoothing_{BEST:g}")]
    assert sorted(second) == sorted(job.key for job in later)
    assert len(set(listener.begun)) == len(listener.begun)  # none twice
    assert set(listener.begun) == set(ResultStore.open(tmp_path).results)

    again = Listener()
    assert run_grid(GRID, ResultStore.open(tmp_path), PretendedEngine(), watcher=again) == []
    assert again.begun == []


def test_what_needs_a_failed_run_is_not_begun(tmp_path: Path) -> None:
    baseline, candidate = job_of(BASE, "baseline", seed=0), selection_jobs(BASE)[0]
    engine, store = PretendedEngine(failing=[baseline, candidate]), ResultStore.open(tmp_path)
    heard: list[Outcome] = []
    failed = run_grid(GRID, store, engine, on_outcome=heard.append)
    assert [outcome.job for outcome in failed] == [baseline, candidate]
    begun = [key for keys in engine.rounds for key in keys]
    assert len(set(begun)) == len(begun) == len(heard)  # nor is a failed run begun again in the same call
    assert job_of(BASE, "vwci_star", seed=0).key not in begun
    assert job_of(BASE, "vwci_star", seed=1).key in begun
    assert not {job_of(BASE, f"smoothing_{epsilon:g}", seed).key for epsilon in EPSILONS for seed in (0, 1)} & {*begun}

    assert run_grid(GRID, store, PretendedEngine()) == []  # the next call tries them again
    assert not store.missing(GRID.jobs(store))
