"""``singleshot reproduce``: measure the tables and figures of the paper."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, UseAppendAction, arg

from singleshot.cli.display import failure_allowed
from singleshot.cli.options import AsJson, Flag, check_seeds_and_jobs
from singleshot.common.text import print_status

if TYPE_CHECKING:
    from singleshot.grid.store import ResultStore
    from singleshot.paper.experiments import PaperGrid
    from singleshot.paper.output import Output

Published = Literal["table1", "table2", "table3", "tableA", "tableB", "fig1", "fig2", "fig4", "fig5"]
Experiment = Literal[Published, "evidence", "all", "status", "verify"]
TableFormat = Literal["text", "markdown", "latex", "csv"]
DEFAULT_SEEDS = 3


def reproduce(  # noqa: PLR0917
    experiment: Positional[Experiment],
    dataset: str | None = None,
    model: UseAppendAction[tuple[str, ...]] = (),
    regime: UseAppendAction[tuple[str, ...]] = (),
    seeds: int = DEFAULT_SEEDS,
    scale: Literal["paper", "small"] = "small",
    output: Path = Path("reproduce"),
    jobs: int = 0,
    engine: Literal["local", "dask"] = "local",
    scheduler: str | None = None,
    results: Path | None = None,
    data_root: Path | None = None,
    dry_run: Flag = False,
    table_format: Annotated[TableFormat, arg(name="format")] = "text",
    as_json: AsJson = False,
) -> None:
    """Measure a table or a figure of the paper, or all of them, with additional methods.

    "evidence" compares the methods on networks that are trained until they have memorised their images, in several
    regimes. It is not part of "all".

    Every run is named after its recipe: a finished run is never repeated, and repeating the command resumes an
    interrupted grid. Results are JSON files in OUTPUT/results, runs with their weights are in OUTPUT/runs, tables in
    OUTPUT/tables and figures in OUTPUT/figures; OUTPUT/report.html shows the methods of the first network. "status"
    shows the progress of the grid in OUTPUT and changes nothing. "verify" repeats every run with a stored result and
    compares all numbers to the bit; a difference ends it with exit code 1.

    Example: singleshot reproduce table1 --dataset digits --model resnet18 --seeds 3 --jobs 2

    Verify, in a clone: singleshot reproduce verify --results results/quickstart/results/digits

    Many machines: singleshot reproduce all --scale paper --engine dask --scheduler tcp://HOST:8786

    Args:
        experiment: what to measure; "all" for the whole paper, "status" to show the progress, "verify" to repeat stored
            runs.
        dataset: a name listed by `singleshot data list`, or a folder; by default tiny_imagenet for tableA and cifar100
            for the others, and the data sets of the paper at its scale.
        model: a network; repeat the flag for several. By default resnet18 and vgg16, and those of the paper at its
            scale.
        regime: data and network of "evidence": hard-resnet18, hard-vgg16, ten-classes, ten-classes-augmented,
            fashion-mnist or more-images; repeat the flag for several. By default all.
        seeds: runs of each method.
        scale: "small" takes hours on two cores, minutes for digits; "paper" takes days on GPUs.
        output: folder for results, runs, tables and figures.
        jobs: runs at a time, one core each; 0 uses all cores. With a cluster, where every worker executes one run at a
            time, it is only the number of workers that --dry-run assumes.
        engine: "local" processes, or the workers of a "dask" cluster (the extra singleshot[cluster]).
        scheduler: address of the dask scheduler.
        results: verify: a folder of stored results, or one result file; by default OUTPUT/results.
        data_root: folder of the data sets; by default $SINGLESHOT_DATA, then the user's cache.
        dry_run: list the runs, which are finished and the estimated time of the others, and exit.
        table_format: format of the printed tables; OUTPUT/tables always has all formats.
        as_json: print every number as JSON instead.
    """
    check_seeds_and_jobs(seeds, jobs)
    if (engine == "dask") != (scheduler is not None):
        raise ValueError("--engine dask and --scheduler tcp://HOST:PORT go together: give both, or neither")
    measuring = {
        "--dataset": dataset,
        "--model": model,
        "--seeds": seeds != DEFAULT_SEEDS,
        "--scale": scale != "small",
        "--scheduler": scheduler,
        "--dry-run": dry_run,
    }
    _refuse_ignored(experiment, measuring, regime, results)
    from singleshot.cli.grid_display import output_folder, raise_failures, run_and_show, show_plan, show_status
    from singleshot.common.environment import usable_cores
    from singleshot.paper.experiments import EXPERIMENTS, GridRequest
    from singleshot.training.run import Run

    if experiment == "status":
        show_status(output, as_json=as_json)
        return
    if experiment == "verify":
        from singleshot.cli.verify import verify

        verify(results or output / "results", output, jobs=jobs or usable_cores(), data_root=data_root, as_json=as_json)
        return
    if experiment == "evidence" and (dataset or model):
        raise ValueError("evidence takes --regime instead of --dataset and --model")
    wanted = tuple(EXPERIMENTS) if experiment == "all" else (experiment,)
    request = GridRequest(wanted, dataset, model, seeds, scale, regime)
    jobs = jobs or (usable_cores() if engine == "local" else 1)
    if dry_run:
        show_plan(request, output, jobs=jobs, data_root=data_root, as_json=as_json)
        return
    if Run.exists(output):
        raise ValueError(f"--output {output} is the folder of a single run; choose another folder")
    from singleshot.grid.dask_engine import DaskEngine
    from singleshot.grid.local_engine import LocalEngine
    from singleshot.grid.store import ResultStore
    from singleshot.paper.output import write_output

    runs = output / "runs"
    with output_folder(output):
        executor = DaskEngine(scheduler, runs, data_root) if scheduler else LocalEngine(runs, jobs, data_root)
        grids = request.grids()
        store = ResultStore.open(output / "results")
        if scheduler is None:
            _check_data(grids, store, data_root)
        is_new = request.save(output)
        before = len(store.results)
        failed = run_and_show([grid.jobs for grid in grids], store, executor)
        _print(write_output(grids, store, output), output, table_format, as_json)
        if scheduler is None:
            _write_page(grids[0], store, output, data_root, rewrite=is_new or len(store.results) > before)
        else:
            print_status("No page: the runs are on the machines of the cluster; use `singleshot report RUN...` there.")
        raise_failures(failed)


def _refuse_ignored(
    experiment: Experiment, measuring: Mapping[str, object], regime: tuple[str, ...], results: Path | None
) -> None:
    """Raise ValueError for a flag that has no effect on an experiment."""
    if experiment != "evidence" and regime:
        raise ValueError("--regime is only for `singleshot reproduce evidence`")
    if experiment != "verify" and results is not None:
        raise ValueError("--results is only for `singleshot reproduce verify`")
    if experiment in {"status", "verify"}:
        for flag, is_given in measuring.items():
            if is_given:
                raise ValueError(f"{flag} is not for `singleshot reproduce {experiment}`; leave it out")


def _check_data(grids: list[PaperGrid], store: ResultStore, data_root: Path | None) -> None:
    """Raise ValueError before the first run if images are missing, or differ from those of stored results."""
    from singleshot.grid.training_job import data_facts
    from singleshot.training.schedule import load_images

    for grid in grids:
        jobs = grid.jobs(store)
        if not store.missing(jobs):
            continue
        facts = {(one.image_size, one.classes): data_facts(load_images(one, data_root=data_root)) for one in grid.bases}
        for job in jobs:
            if job in store and store[job].data != facts[job.recipe.image_size, job.recipe.classes]:
                raise ValueError(
                    f"{store.paths[job.key]} was measured on other images of {job.recipe.dataset}; choose another "
                    "--output, or restore those images"
                )


def _write_page(grid: PaperGrid, store: ResultStore, output: Path, data_root: Path | None, *, rewrite: bool) -> None:
    from singleshot.paper.output import write_grid_page

    page, runs = output / "report.html", output / "runs"
    with failure_allowed("the same command"):
        if rewrite or not page.is_file():
            page.unlink(missing_ok=True)  # an outdated page must not remain if writing fails
            write_grid_page(grid, store, runs, page, data_root=data_root)
        print_status(f"The page: {page}" if page.is_file() else f"No page: {runs} has no finished run.")


def _print(made: Output, output: Path, table_format: TableFormat, as_json: bool) -> None:
    from singleshot.paper.table_formats import FORMATS, as_text

    if as_json:
        print(json.dumps(made.numbers, indent=2))
    elif made.tables:
        width = shutil.get_terminal_size((120, 24)).columns
        convert = FORMATS[table_format][1]
        tables = (as_text(one, width) if table_format == "text" else convert(one) for one in made.tables.values())
        print("\n\n".join(tables))
    for reason in made.missing:
        print_status(f"Not drawn: {reason}")
    folders = {"tables": bool(made.tables), "figures": made.numbers.keys() > made.tables.keys(), "results": True}
    for name, was_written in folders.items():
        if was_written:
            print_status(f"{name.capitalize()}: {output / name}")
