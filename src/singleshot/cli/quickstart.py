"""``singleshot quickstart``: compare an overconfident classifier with calibrated ones."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from singleshot.cli.display import failure_allowed
from singleshot.cli.options import AsJson, Flag, check_seeds_and_jobs
from singleshot.common.text import jsonable

if TYPE_CHECKING:
    from singleshot.paper.quickstart import MethodSummary

FULL_TABLE_WIDTH = 105


def quickstart(
    output: Path = Path("quickstart"),
    seeds: int = 5,
    jobs: int = 0,
    restart: Flag = False,
    as_json: AsJson = False,
) -> None:
    """Train a small net on a few handwritten digits with six methods, and compare their calibration.

    Nothing is downloaded: the images are scikit-learn's bundled digits. Results are JSON files in OUTPUT/results, one
    per run, with reliability diagrams in OUTPUT/reliability.png and a page about the first seed in OUTPUT/report.html.
    Repeat the command to resume an interrupted one.

    Example: singleshot quickstart --output quickstart --seeds 5

    Args:
        output: folder for results, picture and page.
        seeds: runs of each method, each with its own training images and initial weights.
        jobs: runs at a time, one core each; 0 uses all cores.
        restart: delete earlier results in the output folder.
        as_json: print every number as JSON instead of the table.
    """
    check_seeds_and_jobs(seeds, jobs)
    from singleshot.cli.grid_display import output_folder, raise_failures, run_and_show
    from singleshot.common.environment import usable_cores
    from singleshot.evaluation.formatting import amount
    from singleshot.grid.local_engine import LocalEngine
    from singleshot.grid.store import ResultStore
    from singleshot.paper import quickstart as experiment
    from singleshot.reporting.figures import save_reliability

    results, predictions, old_results = output / "results", output / "predictions", output / "results.json"
    with output_folder(output):
        store = ResultStore.open(results, experiment.QuickstartJob)
        if restart:
            store.clear()
            old_results.unlink(missing_ok=True)
        elif old_results.exists():
            experiment.import_old_results(old_results, store)
        engine = LocalEngine(predictions, jobs or usable_cores())
        wanted = experiment.quickstart_jobs(seeds)
        raise_failures(run_and_show([lambda _: wanted], store, engine))
        summaries = experiment.summarize(store, seeds)
        if as_json:
            numbers = {one.title: {"metrics": one.metrics, "pooled": one.pooled.to_dict()} for one in summaries}
            print(json.dumps(jsonable(numbers), indent=2))
        else:
            _print_table(summaries, seeds)
            print(f"Every number: {results}")
        stream = sys.stderr if as_json else sys.stdout
        figure = output / "reliability.png"
        title = f"Digits test images, one forward pass each, predictions of {amount(seeds, 'seed')} pooled"
        save_reliability([(summary.title, summary.pooled) for summary in summaries], figure, title=title)
        print(f"The picture:  {figure}", file=stream)
        retry = shlex.join(["singleshot", "quickstart", "--output", str(output), "--seeds", str(seeds)])
        page = output / "report.html"
        if not experiment.has_predictions(predictions):
            reason = "the predictions of some runs were not kept; use --restart to train all again"
            print(f"No page:      {reason}", file=stream)
            return
        with failure_allowed(f"`{retry}`"):
            experiment.write_quickstart_page(predictions, page)
            print(f"The page:     {page}", file=stream)


def _print_table(summaries: list[MethodSummary], seeds: int) -> None:
    from rich.console import Console
    from rich.table import Table

    from singleshot.evaluation.formatting import amount
    from singleshot.paper.quickstart import Setting, table_rows

    console = Console()
    note = " Best value bold." if console.is_terminal else ""
    if not console.is_terminal:
        console = Console(width=120)  # no wrapping in a file or a pipe
    table = Table(
        title=f"Digits, {Setting().train_images} training images: mean ± standard error over {amount(seeds, 'seed')}",
        caption=f"Test images, one forward pass each. ECE, MCE, NLL, Brier: lower is better.{note}",
        box=None,  # without lines it fits a terminal of 80 columns
        pad_edge=False,
    )
    heading, *rows = table_rows(summaries, bold=("[bold]", "[/bold]"))
    omitted = {"MCE", "training"} if console.width < FULL_TABLE_WIDTH else set()
    shown = [column for column, name in enumerate(heading) if name not in omitted]
    for column in shown:
        table.add_column(heading[column], justify="right" if column else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(row[column] for column in shown))
    console.print(table)
