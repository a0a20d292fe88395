"""``singleshot quickstart``: see an overconfident classifier beside calibrated ones, in numbers and in a picture."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from singleshot.cli.display import try_to_write

if TYPE_CHECKING:
    from singleshot.paper.quickstart import Run
    from singleshot.paper.quickstart_grid import MethodSummary, RunStore


MOST_SEEDS = 1000
WIDE = 105  # columns that the whole table needs


def quickstart(
    output: Path = Path("quickstart"),
    seeds: int = 10,
    jobs: int = 0,
    restart: bool = False,
    as_json: Annotated[bool, arg(name="json")] = False,
) -> None:
    """Train a small net on a few handwritten digits six ways, and compare how far its confidence can be trusted.

    Nothing is downloaded: the images are scikit-learn's bundled digits. Results are kept as they come, in
    OUTPUT/results.json, with a picture in OUTPUT/reliability.png and a page to look around in, OUTPUT/report.html,
    about the first seed; interrupted, the same command continues.

    Example: singleshot quickstart --output quickstart --seeds 10

    Args:
        output: folder for the results and the picture.
        seeds: runs of each method, each with its own training images and initial weights.
        jobs: runs at a time, one core each; 0 takes all cores.
        restart: forget earlier results in the output folder.
        as_json: print every number as JSON instead of the table.
    """
    if not 1 <= seeds <= MOST_SEEDS:
        raise ValueError(f"--seeds must lie in [1, {MOST_SEEDS}], got {seeds}")
    if jobs < 0:
        raise ValueError(f"--jobs must be at least 1, or 0 for all cores, got {jobs}")
    from singleshot.common.environment import usable_cores
    from singleshot.common.files import FolderNotUsableError, exclusive

    try:
        with exclusive(output):
            _quickstart(output, seeds, jobs or usable_cores(), restart, as_json)
    except FolderNotUsableError as error:
        raise ValueError(f"--output {output} {error}; choose another folder") from None


def _quickstart(output: Path, seeds: int, jobs: int, restart: bool, as_json: bool) -> None:
    from singleshot.paper.quickstart import METHODS, Setting, are_there
    from singleshot.paper.quickstart_grid import RunStore, summarize

    results, figure, predictions = output / "results.json", output / "reliability.png", output / "predictions"
    if restart:
        results.unlink(missing_ok=True)
    store = RunStore.open(results, Setting())
    _train(store, seeds, jobs, predictions)
    summaries = [summarize(method, [store.runs[method, seed] for seed in range(seeds)]) for method in METHODS]
    if as_json:
        print(json.dumps({summary.method: summary.to_dict() for summary in summaries}, indent=2))
    else:
        _print_table(summaries, store, seeds)
        print(f"Every number: {results}")
    beside = sys.stderr if as_json else sys.stdout
    _save_figure(summaries, seeds, figure)
    print(f"The picture:  {figure}", file=beside)
    retry = shlex.join(["singleshot", "quickstart", "--output", str(output), "--seeds", str(seeds)])
    page = output / "report.html"
    if not are_there(predictions, list(METHODS)):  # as with results of earlier versions
        print("No page:      the predictions of some runs were not kept; --restart trains all again", file=beside)
    elif try_to_write(page, lambda path: _write_page(predictions, path), f"`{retry}`"):
        print(f"The page:     {page}", file=beside)


def _write_page(predictions: Path, page: Path) -> bool:
    from singleshot.paper.quickstart import METHODS, write_quickstart_page

    write_quickstart_page(predictions, list(METHODS), page)
    return True


def _train(store: RunStore, seeds: int, jobs: int, predictions: Path) -> None:
    """Run what is missing behind a progress bar on standard error; plain lines where there is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from singleshot.paper.quickstart import METHODS
    from singleshot.paper.quickstart_grid import run_grid

    console = Console(stderr=True)
    total, done = seeds * len(METHODS), seeds * len(METHODS) - len(store.missing(seeds))
    if done:
        rest = "; the rest follows" if done < total else ""
        console.print(f"{done} of {total} runs were finished before{rest}.")
    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[last]}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=total, completed=done, last="")
        finished = done

        def report(run: Run) -> None:
            nonlocal finished
            finished += 1
            progress.update(task, advance=1, last=f"{run.method}, seed {run.seed}")
            if not console.is_terminal and (finished % len(METHODS) == 0 or finished == total):
                print(f"trained {finished} of {total}", file=console.file, flush=True)

        run_grid(store, seeds, jobs, report, predictions)


def _print_table(summaries: list[MethodSummary], store: RunStore, seeds: int) -> None:
    from rich.console import Console
    from rich.table import Table

    from singleshot.paper.quickstart_grid import table_rows

    console = Console()
    if not console.is_terminal:
        console = Console(width=120)  # a file or a pipe has no edge to wrap at
    table = Table(
        title=f"Digits, {store.setting.train_images} training images: mean ± standard error over {seeds} seeds",
        caption="Test images, one forward pass each. ECE, MCE, NLL, Brier: lower is better. Best value bold.",
        box=None,  # without lines between the columns it fits a terminal of 80
        pad_edge=False,
    )
    header, rows = table_rows(summaries, bold=("[bold]", "[/bold]"))
    left_out = {"MCE", "training"} if console.width < WIDE else set()
    shown = [column for column, name in enumerate(header) if name not in left_out]
    for column in shown:
        table.add_column(header[column], justify="right" if column else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(row[column] for column in shown))
    console.print(table)


def _save_figure(summaries: list[MethodSummary], seeds: int, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")  # drawing to a file needs no screen
    import matplotlib.pyplot as plt

    from singleshot.common.files import write_atomically
    from singleshot.report import plot_reliability

    figure, axes = plt.subplots(2, 3, figsize=(11, 9), layout="constrained")
    for ax, summary in zip(axes.flat, summaries, strict=True):
        plot_reliability(summary.pooled, ax=ax, title=summary.method)
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.suptitle(f"Digits test images, one forward pass each, predictions of {seeds} seeds pooled")
    write_atomically(path, lambda temporary: figure.savefig(temporary, dpi=110))
    plt.close(figure)
