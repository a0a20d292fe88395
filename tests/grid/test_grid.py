from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

import torch

from fake_results import fake_result
from singleshot.grid.engines import GridWatcher, Outcome
from singleshot.grid.engines.engine import Todo, next_of
from singleshot.grid.job import Job, job_of
from singleshot.grid.result import Result
from singleshot.grid.runner import run_grid
from singleshot.grid.store import ResultStore
from singleshot.paper.exhibits import Grid, selection_jobs
from singleshot.paper.methods import EPSILONS
from small_grids import Listener, tiny

BASE = tiny()
GRID = Grid(("table3",), (BASE,), seeds=2)
BEST = EPSILONS[2]


class PretendedEngine:
    """Makes up its results: held-out images like one strength of label smoothing best."""

    def __init__(self, failing: Sequence[Job] = (), other: Job | None = None) -> None:
        self.failing = [job.key for job in failing]
        self.other = other  # whose result is given for that of every job
        self.begun: list[str] = []

    def run(self, todo: Todo, watcher: GridWatcher) -> Generator[Outcome, None, None]:
        while (job := next_of(todo, self.begun)) is not None:
            self.begun.append(job.key)
            watcher.started(job)
            if job.key in self.failing:
                yield Outcome(job, None, "it was told to fail")
            else:
                yield Outcome(job, pretended(self.other or job))


def pretended(job: Job) -> Result:
    sharpness = 2.0 if job.recipe.label_smoothing == BEST else 0.4
    return fake_result(job, logits=torch.tensor([[sharpness, 0.0]]), labels=torch.tensor([0]))


def test_a_run_comes_as_soon_as_those_it_depends_on_and_seed_by_seed(tmp_path: Path) -> None:
    store, engine, listener = ResultStore.open(tmp_path), PretendedEngine(), Listener()
    assert run_grid(GRID, store, engine, watcher=listener) == []
    begun = listener.begun
    assert len(set(begun)) == len(begun)  # none twice
    assert set(begun) == set(ResultStore.open(tmp_path).results)
    assert begun[:3] == [job_of(BASE, method, seed=0).key for method in ("baseline", "vwci", "vwci_star")]
    last_choice = max(begun.index(job.key) for job in selection_jobs(BASE))
    assert begun[last_choice + 1] == job_of(BASE, f"smoothing_{BEST:g}", seed=0).key
    seeds = [store.results[key].job.recipe.seed for key in begun]
    assert seeds == sorted(seeds)

    again = PretendedEngine()
    assert run_grid(GRID, ResultStore.open(tmp_path), again) == []
    assert again.begun == []


def test_the_result_of_another_run_is_none(tmp_path: Path) -> None:
    store, other = ResultStore.open(tmp_path), job_of(BASE, "focal", seed=7)
    heard: list[Outcome] = []
    failed = run_grid(GRID, store, PretendedEngine(other=other), on_outcome=heard.append)
    assert failed == heard != []
    assert {outcome.error for outcome in failed} == {
        f"its worker answered with the result of run {other.key}; has it another version?"
    }
    assert store.results == {}


def test_what_needs_a_failed_run_is_not_begun(tmp_path: Path) -> None:
    baseline, candidate = job_of(BASE, "baseline", seed=0), selection_jobs(BASE)[0]
    engine, store = PretendedEngine(failing=[baseline, candidate]), ResultStore.open(tmp_path)
    heard: list[Outcome] = []
    failed = run_grid(GRID, store, engine, on_outcome=heard.append)
    assert [outcome.job for outcome in failed] == [baseline, candidate]
    begun = engine.begun
    assert len(set(begun)) == len(begun) == len(heard)  # nor is a failed run begun again in the same call
    assert job_of(BASE, "vwci_star", seed=0).key not in begun
    assert job_of(BASE, "vwci_star", seed=1).key in begun
    assert not {job_of(BASE, f"smoothing_{epsilon:g}", seed).key for epsilon in EPSILONS for seed in (0, 1)} & {*begun}

    assert run_grid(GRID, store, PretendedEngine()) == []  # the next call tries them again
    assert not store.missing(GRID.jobs(store))
