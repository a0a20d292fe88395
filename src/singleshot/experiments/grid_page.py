"""The report page of a grid: its methods side by side, on the first network and the first seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from singleshot.experiments.job import Job, job_of
from singleshot.experiments.methods import method_behind
from singleshot.experiments.plan import CHOSEN_SMOOTHING, EXHIBITS, Grid, chosen_smoothing
from singleshot.experiments.store import ResultStore
from singleshot.report.page import Subject, write_page
from singleshot.report.page.gallery import SMALL_EDGE
from singleshot.report.page.run_subject import subject_of_run

MOST_METHODS = 8
"""More than these side by side nobody reads, and each takes seconds."""
FIRST = ("baseline", "vwci", "passes", CHOSEN_SMOOTHING, "focal", "vwci_total_variation", "vwci_epistemic", "ci_0.1")
"""The methods that are shown before any others: the right baselines, and what they are to be compared with."""


def write_grid_page(
    grids: Sequence[Grid], store: ResultStore, runs: Path, path: Path, *, data_root: Path | None = None
) -> bool:
    """Write the page; False where no finished run of the first network is on this machine."""
    grid = grids[0]
    base = grid.bases[0]
    jobs = [job for job in _jobs_of_first_seed(grid, store) if job in store and (runs / job.key).is_dir()]
    if not jobs:
        return False

    def subjects() -> Iterator[Subject]:
        for job in jobs[:MOST_METHODS]:
            method = method_behind(job.recipe, starts_from_another=job.start is not None)
            yield subject_of_run(runs / job.key, name=method.title, data_root=data_root, edge=SMALL_EDGE)

    shown = "" if len(jobs) <= MOST_METHODS else f" ({MOST_METHODS} of {len(jobs)} methods)"
    title = f"{base.model} on {Path(base.dataset).name}: can its scores be trusted?{shown}"
    write_page(subjects(), path, title=title)
    return True


def _jobs_of_first_seed(grid: Grid, store: ResultStore) -> list[Job]:
    """One run of each method, those that hold images out left aside: they are trained on less."""
    base = grid.bases[0]
    asked = dict.fromkeys(name for exhibit in grid.exhibits for name in EXHIBITS[exhibit])
    names = [*(name for name in FIRST if name in asked), *(name for name in asked if name not in FIRST)]
    chosen = {CHOSEN_SMOOTHING: chosen_smoothing(base, store)}
    jobs = (job_of(base, chosen.get(name) or name, seed=0) for name in names if chosen.get(name, name) is not None)
    return list({job.key: job for job in jobs if not job.recipe.validation}.values())
