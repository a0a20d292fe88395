"""How far a grid is, read from what its runs have left on disk, so that any process can look while another works."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from singleshot.experiments.job import Job
from singleshot.experiments.store import ResultStore
from singleshot.files import is_held
from singleshot.training.metrics_log import read_records
from singleshot.training.run import METRICS, Run
from singleshot.training.schedule import Schedule

State = Literal["done", "running", "stopped", "waiting"]


@dataclass(frozen=True)
class JobProgress:
    """Where one run stands; ``share`` is how much of its training is done."""

    job: Job
    state: State
    share: float

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        return {"key": self.job.key, "title": self.job.title, "state": self.state, "share": self.share}


def progress_of(jobs: Sequence[Job], store: ResultStore, workspace: Path) -> list[JobProgress]:
    """The state of every job, in their order. Runs on machines that share no disk with this one seem to be waiting."""
    return [_progress(job, store, workspace / job.key) for job in jobs]


def _progress(job: Job, store: ResultStore, folder: Path) -> JobProgress:
    if job in store:
        return JobProgress(job, "done", 1.0)
    share = _share(folder)
    if share is None:
        return JobProgress(job, "waiting", 0.0)
    return JobProgress(job, "running" if is_held(folder) else "stopped", share)


def _share(folder: Path) -> float | None:
    """How much of the steps of a run is done; None where there is no run yet."""
    try:
        run = Run.open(folder)
        records = read_records(folder / METRICS)
        images = min(run.facts.images[0], run.recipe.train_images or run.facts.images[0])
        schedule = Schedule(run.recipe, images - round(run.recipe.validation * images))
        steps = max((record["step"] for record in records), default=schedule.first_step)
        return (steps - schedule.first_step) / max(schedule.steps - schedule.first_step, 1)
    except (ValueError, OSError, ArithmeticError):  # a folder that a kill has left half made
        return None
