"""``singleshot reproduce``: the paper's tables and figures, measured here."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, UseAppendAction, arg

from singleshot.cli.display import try_to_write
from singleshot.common.errors import StoppedError
from singleshot.common.text import printable

if TYPE_CHECKING:
    from singleshot.grid.engines import Engine
    from singleshot.grid.store import ResultStore
    from singleshot.paper.exhibition import Exhibition
    from singleshot.paper.exhibits import Grid
    from singleshot.paper.request import Request

What = Literal["table1", "table2", "table3", "tableA", "tableB", "fig1", "fig2", "fig4", "fig5", "all", "status"]
TableFormat = Literal["text", "markdown", "latex", "csv"]


def reproduce(  # noqa: PLR0917
    exhibit: Positional[What],
    dataset: str | None = None,
    model: UseAppendAction[tuple[str, ...]] = (),
    seeds: int = 3,
    scale: Literal["paper", "small"] = "small",
    output: Path = Path("reproduce"),
    jobs: int = 0,
    engine: Literal["local", "dask"] = "local",
    scheduler: str | None = None,
    data_root: Path | None = None,
    dry_run: bool = False,
    table_format: Annotated[TableFormat, arg(name="format")] = "text",
    as_json: Annotated[bool, arg(name="json")] = False,
) -> None:
    """Measure a table or a figure of the paper, or all of them, with the rows that the paper lacks.

    Every run is named after its recipe: what is finished is never run twice, and the same command continues a grid
    that was stopped. Results are plain JSON files in OUTPUT/results, runs with their weights are in OUTPUT/runs, tables
    in OUTPUT/tables and figures in OUTPUT/figures; OUTPUT/report.html shows the methods of the first network. "status"
    shows how far the grid in OUTPUT is, and changes nothing.

    Example: singleshot reproduce table1 --dataset digits --model resnet18 --seeds 3 --jobs 2

    Many machines: singleshot reproduce all --scale paper --engine dask --scheduler tcp://HOST:8786

    Args:
        exhibit: what to measure; "all" for everything, "status" to look on.
        dataset: a name that `singleshot data list` knows, or a folder; by default tiny_imagenet for tableA and cifar100
            for the others, and what the paper has at its scale.
        model: a network, once for each; by default resnet18 and vgg16, and the paper's at its scale.
        seeds: runs of each method.
        scale: "small" takes hours on two cores, minutes for digits; "paper" takes days on GPUs.
        output: folder for results, runs, tables and figures.
        jobs: runs at a time, one core each; 0 takes all cores. Of a cluster, where every worker makes one run at a
            time, it only tells --dry-run how many workers to reckon with.
        engine: "local" processes, or the workers of a "dask" cluster (the extra singleshot[cluster]).
        scheduler: address of the dask scheduler.
        data_root: where the data sets are; by default $SINGLESHOT_DATA, then the user's cache.
        dry_run: say which runs there are, what is done and how long the rest will take, and stop.
        table_format: how tables are printed; all formats are written to OUTPUT/tables in any case.
        as_json: print every number as JSON instead.
    """
    if jobs < 0:
        raise ValueError(f"--jobs must be at least 1, or 0 for all cores, got {jobs}")
    if (engine == "dask") != (scheduler is not None):
        raise ValueError("--engine dask and --scheduler tcp://HOST:PORT go together: give both, or neither")
    from singleshot.common.environment import usable_cores
    from singleshot.common.files import FolderNotUsableError, exclusive
    from singleshot.paper.exhibits import EXHIBITS
    from singleshot.paper.request import MOST_SEEDS, Request

    if not 1 <= seeds <= MOST_SEEDS:
        raise ValueError(f"--seeds must lie in [1, {MOST_SEEDS}], got {seeds}")
    if exhibit == "status":
        from singleshot.cli.grid_display import show_status

        show_status(output, as_json=as_json)
        return
    request = Request(tuple(EXHIBITS) if exhibit == "all" else (exhibit,), dataset, model, seeds, scale)
    jobs = jobs or (usable_cores() if engine == "local" else 1)  # how many workers will come, nobody knows
    if dry_run:
        from singleshot.cli.grid_display import show_plan

        show_plan(request, output, jobs=jobs, data_root=data_root, as_json=as_json)
        return
    from singleshot.training.run import Run

    if Run.exists(output):
        raise ValueError(f"--output {output} is the folder of a single run; choose another folder")
    try:
        with exclusive(output):
            _reproduce(request, output, _engine(output, jobs, scheduler, data_root), table_format, as_json)
    except FolderNotUsableError as error:
        raise ValueError(f"--output {output} {error}; choose another folder") from None


def _engine(output: Path, jobs: int, scheduler: str | None, data_root: Path | None) -> Engine:
    runs = output / "runs"
    if scheduler is not None:
        from singleshot.grid.engines.cluster import DaskEngine

        return DaskEngine(scheduler, runs, data_root)
    from singleshot.grid.engines import LocalEngine

    return LocalEngine(runs, jobs, data_root)


def _reproduce(request: Request, output: Path, engine: Engine, table_format: TableFormat, as_json: bool) -> None:
    from singleshot.cli.grid_display import GridDisplay, say
    from singleshot.grid.engines import LocalEngine
    from singleshot.grid.runner import run_grid
    from singleshot.grid.store import ResultStore
    from singleshot.paper.exhibition import exhibit_all

    grids = request.grids()
    store = ResultStore.open(output / "results")
    for reason in store.skipped:
        say(f"Skipped {printable(reason)}.")
    _check_data(grids, store, engine)
    is_new = not request.is_saved(output)
    request.save(output)
    failed = []
    before = len(store.results)
    for grid in grids:
        with GridDisplay(grid, store) as display:
            failed += run_grid(grid, store, engine, watcher=display, on_outcome=display.came)
    made = exhibit_all(grids, store, output)
    _print(made, output, table_format, as_json)
    if isinstance(engine, LocalEngine):  # the runs of a cluster are elsewhere
        _write_page(grids, store, output, engine.data_root, anew=is_new or len(store.results) > before)
    else:
        say("No page: the runs are on the machines of the cluster; `singleshot report RUN...` there makes one.")
    if failed:
        reasons = "\n".join(f"  {outcome.job.title}: {outcome.error}" for outcome in failed)
        raise StoppedError(f"{len(failed)} runs failed; the same command tries them again:\n{reasons}")


def _check_data(grids: list[Grid], store: ResultStore, engine: Engine) -> None:
    """Say before the first run that images are missing, or are others than results are of.

    What is finished needs none, and a cluster has its own.
    """
    from singleshot.data import load_dataset
    from singleshot.grid.engines import LocalEngine
    from singleshot.grid.execution import data_facts

    if not isinstance(engine, LocalEngine):
        return
    for grid in grids:
        jobs = grid.jobs(store)
        if not store.missing(jobs):
            continue
        facts = {}
        for base in grid.bases:
            dataset = load_dataset(base.dataset, data_root=engine.data_root, image_size=base.image_size)
            facts[base.image_size] = data_facts(dataset)
        for job in jobs:
            if job in store and store[job].data != facts[job.recipe.image_size]:
                raise ValueError(
                    f"{store.paths[job.key]} was measured on other images of {job.recipe.dataset} than there are here; "
                    "choose another --output, or bring those images back"
                )


def _write_page(grids: list[Grid], store: ResultStore, output: Path, data_root: Path | None, *, anew: bool) -> None:
    """The page of the first network's methods."""
    from singleshot.cli.grid_display import say

    def write(page: Path) -> bool:
        from singleshot.paper.exhibition import write_grid_page

        page.unlink(missing_ok=True)  # it would pass for the new one if that cannot be written, now and the next time
        return write_grid_page(grids, store, output / "runs", page, data_root=data_root)

    page = output / "report.html"
    if page.is_file() and not anew:
        say(f"The page: {page}")
    elif (written := try_to_write(page, write, "the same command")) is not None:
        say(f"The page: {page}" if written else f"No page: no finished run of it is in {output / 'runs'}.")


def _print(made: Exhibition, output: Path, table_format: TableFormat, as_json: bool) -> None:
    from singleshot.cli.grid_display import say
    from singleshot.paper.table_formats import formatted

    if as_json:
        print(json.dumps(made.numbers, indent=2))
    elif made.tables:
        width = shutil.get_terminal_size((120, 24)).columns
        print("\n\n".join(formatted(table, table_format, width=width) for table in made.tables.values()))
    for reason in made.missing:
        say(f"Not drawn: {reason}")
    folders = {"tables": bool(made.tables), "figures": bool(made.figures), "results": True}
    for name, is_there in folders.items():
        if is_there:
            say(f"{name.capitalize()}: {output / name}")
