"""What a person sees of a grid: the runs before they begin, how they go, and how far they are."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from singleshot.common.files import is_held
from singleshot.common.text import printable, printable_lines
from singleshot.grid.engines import GridWatcher, Outcome
from singleshot.grid.job import Job
from singleshot.grid.progress import JobProgress, progress_of
from singleshot.grid.store import ResultStore
from singleshot.paper.exhibits import Grid
from singleshot.paper.request import Request

if TYPE_CHECKING:
    from rich.table import Table

LOOK_EVERY = 2.0  # seconds


def say(text: str) -> None:
    """A line for people, beside the output."""
    print(printable_lines(text), file=sys.stderr, flush=True)


class GridDisplay(GridWatcher):
    """A bar on a terminal, and a line for each run elsewhere."""

    def __init__(self, grid: Grid, store: ResultStore) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._grid, self._store = grid, store
        self._progress = Progress(
            TextColumn("runs"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[last]}", markup=False),
            console=Console(stderr=True),
        )
        self._progress.disable = not self._progress.console.is_terminal
        done, total = self._count()
        if done:
            say(f"{done} of {total} runs were finished before.")
        self._task = self._progress.add_task("", total=total, completed=done, last="")

    def __enter__(self) -> GridDisplay:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()

    def started(self, job: Job) -> None:
        """Name what is under way."""
        self._progress.update(self._task, last=printable(job.title))

    def lost(self, job: Job, reason: str) -> None:
        """Nothing is lost but time; it is said all the same."""
        self._line(f"{printable(job.title)} is begun again: {reason}.")

    def waiting(self, reason: str) -> None:
        """Say once why nothing moves, or not all that could."""
        self._line(f"{printable(reason)}.")

    def came(self, outcome: Outcome) -> None:
        """Count a run that came to its end, and say what it gave."""
        done, total = self._count()
        self._progress.update(self._task, completed=done, total=total)
        title = printable(outcome.job.title)
        if outcome.result is None:
            self._line(f"{title} failed: {outcome.error}")
            return
        metrics = outcome.result.metrics()
        shown = f"accuracy {metrics['accuracy']:.3f}, ECE {metrics['ece']:.3f}, NLL {metrics['nll']:.3f}"
        self._line(f"{done} of {total}: {title}: {shown}, {outcome.result.seconds:.0f} s")

    def _count(self) -> tuple[int, int]:
        """Runs that are done, and all that are known to be needed: a few are known only after others."""
        jobs = self._grid.jobs(self._store)
        return len(jobs) - len(self._store.missing(jobs)), len(jobs)

    def _line(self, text: str) -> None:
        if self._progress.disable:
            say(text)
        else:
            self._progress.console.print(printable_lines(text), markup=False, highlight=False)


def show_plan(request: Request, output: Path, *, jobs: int, data_root: Path | None, as_json: bool) -> None:
    """Every run, whether it is done, and how long the others will take here."""
    from singleshot.grid.progress import estimated_seconds

    store = ResultStore.open(output / "results")
    planned = {job.key: job for grid in request.grids() for job in grid.jobs(store)}
    todo = store.missing(planned.values())
    if todo:
        say(f"{len(todo)} of {len(planned)} runs are to do; timing a few steps of each kind ...")
    seconds = estimated_seconds(todo, data_root=data_root)
    # However many at a time, it takes as long as the longest, and what that one starts from.
    chains = [seconds[job.key] + (seconds.get(job.first.key, 0) if job.first else 0) for job in todo]
    total = max(sum(seconds.values()) / jobs, *chains, 0)
    if as_json:
        listed = [
            {"key": key, "title": job.title, "done": job in store, "seconds": seconds.get(key)}
            for key, job in planned.items()
        ]
        print(json.dumps({"runs": listed, "jobs": jobs, "seconds": total, "skipped": store.skipped}, indent=2))
        return
    for reason in store.skipped:
        say(f"Skipped {printable(reason)}.")
    for key, job in planned.items():
        print(f"{key}  {'done' if job in store else _duration(seconds[key]):>10}  {printable(job.title)}")
    chosen_later = any(job.recipe.loss == "label_smoothing" and job.recipe.validation for job in todo)
    more = " Which label smoothing is run with every seed, these decide: a few runs more." if chosen_later else ""
    print(f"{len(planned)} runs, {len(todo)} to do: about {_duration(total)} of training, {jobs} at a time.{more}")


def show_status(output: Path, *, as_json: bool) -> None:
    """How far the grid in a folder is: once, or on a terminal until it is done."""
    from rich.console import Console
    from rich.live import Live

    request = Request.load(output)
    store = ResultStore.open(output / "results")
    found = _look(request, store, output)
    if as_json:
        states: dict[str, Any] = dict(Counter(one.state for one in found))
        runs = [one.to_dict() for one in found]
        print(json.dumps({"runs": runs, "states": states, "skipped": store.skipped}, indent=2))
        return
    for reason in store.skipped:
        say(f"Skipped {printable(reason)}.")
    console = Console()
    if not console.is_terminal:
        for one in found:
            print(f"{one.job.key}  {one.state:8}  {one.share:4.0%}  {printable(one.job.title)}")
        print(_summary(found))
        return
    with Live(_view(found), console=console, auto_refresh=False) as live:
        while is_held(output) and any(one.state != "done" for one in found):
            time.sleep(LOOK_EVERY)
            store.refresh()
            found = _look(request, store, output)
            live.update(_view(found), refresh=True)
    if any(one.state != "done" for one in found):
        say("Nobody works on it now; the command that began it goes on.")


def _look(request: Request, store: ResultStore, output: Path) -> list[JobProgress]:
    jobs = {job.key: job for grid in request.grids() for job in grid.jobs(store)}
    return progress_of(list(jobs.values()), store, output / "runs")


def _summary(found: list[JobProgress]) -> str:
    states = Counter(one.state for one in found)
    return ", ".join(f"{count} {state}" for state, count in states.most_common()) + f" of {len(found)} runs"


def _view(found: list[JobProgress]) -> Table:
    """What is under way, and in a line what is not: a grid has more runs than a screen has lines."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table(title=_summary(found), box=None, pad_edge=False)
    for heading in ("run", "state", "", "what"):
        table.add_column(heading)
    for one in found:
        if one.state in ("running", "stopped"):
            bar = ProgressBar(total=1.0, completed=one.share, width=20)
            table.add_row(one.job.key, one.state, bar, Text(printable(one.job.title)))
    return table


def _duration(seconds: float) -> str:
    """Seconds as people say them."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"
