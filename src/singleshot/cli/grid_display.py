"""Running and showing a grid: its plan, its progress and its status."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from singleshot.common.errors import StoppedError
from singleshot.common.files import FolderNotUsableError, exclusive, is_held
from singleshot.common.text import print_status, printable
from singleshot.grid.engine import Engine, Grid, GridWatcher, Outcome, run_grid
from singleshot.grid.job import Job
from singleshot.grid.progress import State, estimate_seconds, progress_of
from singleshot.grid.store import ResultStore
from singleshot.paper.experiments import GridRequest

REFRESH_SECONDS = 2.0
STARTED = ("running", "stopped")
"""The states shown on a terminal: a grid has more runs than a terminal has lines."""


@contextmanager
def output_folder(output: Path) -> Iterator[None]:
    """Lock the output folder against other processes."""
    try:
        with exclusive(output):
            yield
    except FolderNotUsableError as error:
        raise ValueError(f"--output {output} {error}; choose another folder") from None


def run_and_show(grids: Sequence[Grid], store: ResultStore, engine: Engine) -> list[Outcome]:
    """Run the missing jobs with a progress display, and return the failed outcomes."""
    report_skipped(store)
    failed = []
    for grid in grids:
        display = _GridDisplay(grid, store)
        with display.progress:
            failed += run_grid(grid, store, engine, display)
    return failed


def raise_failures(failed: Sequence[Outcome]) -> None:
    """Raise StoppedError if a run has failed."""
    if failed:
        reasons = "\n".join(f"  {outcome.job.title}: {outcome.error}" for outcome in failed)
        raise StoppedError(f"{len(failed)} runs failed; repeat the command to retry them:\n{reasons}")


def report_skipped(store: ResultStore) -> None:
    """Print the reason for each file that the store skipped."""
    for reason in store.skipped:
        print_status(f"Skipped {printable(reason)}.")


class _GridDisplay(GridWatcher):
    """A progress bar on a terminal, one line per run elsewhere."""

    def __init__(self, grid: Grid, store: ResultStore) -> None:
        self._grid, self._store = grid, store
        self.progress = Progress(
            TextColumn("runs"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[last]}", markup=False),
            console=Console(stderr=True),
        )
        self.progress.disable = not self.progress.console.is_terminal
        done, total = self._count()
        if done:
            print_status(f"{done} of {total} runs were already finished.")
        self._task = self.progress.add_task("", total=total, completed=done, last="")

    def started(self, job: Job) -> None:
        self.progress.update(self._task, last=printable(job.title))

    def lost(self, job: Job, reason: str) -> None:
        self._line(f"{printable(job.title)} is restarted: {reason}.")

    def waiting(self, reason: str) -> None:
        self._line(f"{printable(reason)}.")

    def finished(self, outcome: Outcome) -> None:
        done, total = self._count()
        self.progress.update(self._task, completed=done, total=total)
        title = printable(outcome.job.title)
        if outcome.result is None:
            self._line(f"{title} failed: {outcome.error}")
            return
        metrics = outcome.result.metrics()
        shown = f"accuracy {metrics['accuracy']:.3f}, ECE {metrics['ece']:.3f}, NLL {metrics['nll']:.3f}"
        self._line(f"{done} of {total}: {title}: {shown}, {outcome.result.seconds:.0f} s")

    def _count(self) -> tuple[int, int]:
        """Return the number of finished runs and of all known runs."""
        jobs = self._grid(self._store)
        return len(jobs) - len(self._store.missing(jobs)), len(jobs)

    def _line(self, text: str) -> None:
        self.progress.console.print(printable(text, keep="\n"), markup=False, highlight=False, soft_wrap=True)


def show_plan(request: GridRequest, output: Path, *, jobs: int, data_root: Path | None, as_json: bool) -> None:
    """Print every run, whether it is finished, and the estimated time of the others."""
    store = ResultStore.open(output / "results")
    planned = {job.key: job for grid in request.grids() for job in grid.jobs(store)}
    todo = [job for job in planned.values() if job not in store]
    if todo:
        print_status(f"{len(todo)} of {len(planned)} runs to do; timing a few steps of each kind ...")
    seconds = estimate_seconds(todo, data_root=data_root)
    # With any number of processes, at least the time of the longest run and of the run it requires.
    chains = [seconds[job.key] + (seconds.get(job.requires.key, 0) if job.requires else 0) for job in todo]
    total = max(sum(seconds.values()) / jobs, *chains, 0)
    if as_json:
        runs = [
            {"key": key, "title": job.title, "done": job in store, "seconds": seconds.get(key)}
            for key, job in planned.items()
        ]
        print(json.dumps({"runs": runs, "jobs": jobs, "seconds": total, "skipped": store.skipped}, indent=2))
        return
    report_skipped(store)
    for key, job in planned.items():
        print(f"{key}  {'done' if job in store else _duration(seconds[key]):>16}  {printable(job.title)}")
    held_out = [job.recipe for job in todo if job.recipe.validation and not job.recipe.is_tuned]
    selects = any(recipe.loss == "label_smoothing" for recipe in held_out)
    more = " The selected label smoothing adds one run per seed." if selects else ""
    print(f"{len(planned)} runs, {len(todo)} to do: about {_duration(total)} of training, {jobs} at a time.{more}")


def show_status(output: Path, *, as_json: bool) -> None:
    """Print the progress of the grid in a folder; on a terminal, keep it up to date until the grid is done."""
    request = GridRequest.load(output)
    store = ResultStore.open(output / "results")
    runs = _progress(request, store, output)
    if as_json:
        states = dict(Counter(run["state"] for run in runs))
        print(json.dumps({"runs": runs, "states": states, "skipped": store.skipped}, indent=2))
        return
    report_skipped(store)
    console = Console()
    if not console.is_terminal:
        print(_status(runs))
        return
    with Live(console=console, auto_refresh=False) as live:
        live.update(Text(_status(runs, STARTED)), refresh=True)
        while is_held(output) and any(run["state"] != "done" for run in runs):
            time.sleep(REFRESH_SECONDS)
            store.refresh()
            runs = _progress(request, store, output)
            live.update(Text(_status(runs, STARTED)), refresh=True)
    if any(run["state"] != "done" for run in runs):
        print_status("No process is running this grid; repeat the original command to resume it.")


def _progress(request: GridRequest, store: ResultStore, output: Path) -> list[dict[str, Any]]:
    jobs = {job.key: job for grid in request.grids() for job in grid.jobs(store)}
    runs = []
    for key, job in jobs.items():
        state, share = progress_of(job, store, output / "runs")
        runs.append({"key": key, "title": job.title, "state": state, "share": share})
    return runs


def _status(runs: list[dict[str, Any]], shown: Collection[str] = get_args(State)) -> str:
    """Return a line for each run in one of the ``shown`` states, and a summary of all."""
    lines = [
        f"{run['key']}  {run['state']:8}  {run['share']:4.0%}  {printable(run['title'])}"
        for run in runs
        if run["state"] in shown
    ]
    states = Counter(run["state"] for run in runs).most_common()
    return "\n".join([*lines, f"{', '.join(f'{count} {state}' for state, count in states)} of {len(runs)} runs"])


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
