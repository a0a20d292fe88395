"""``singleshot report``: one self-contained page about trained runs and files of predictions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import OmitArgPrefixes, arg

from singleshot.cli.options import AsJson, Paths, ReadOptions, RunOptions
from singleshot.common.files import check_writable
from singleshot.common.text import printable

if TYPE_CHECKING:
    from singleshot.reporting.page import ModelReport


def report(  # noqa: PLR0917
    sources: Paths,
    files: OmitArgPrefixes[ReadOptions],
    runs: OmitArgPrefixes[RunOptions],
    output: Annotated[Path, arg(aliases=["-o"])] = Path("report.html"),
    title: str | None = None,
    bins: int = 20,
    replicates: int | None = None,
    dataset: str | None = None,
    as_json: AsJson = False,
) -> None:
    """Write one HTML page about the calibration of runs and files of predictions.

    The page is a single file that needs no network. It shows a verdict on each model, metrics with intervals,
    reliability diagrams, a threshold explorer, classes and confident mistakes; for runs also images and the training.
    Its numbers are those of `singleshot evaluate`, which describes the file formats. If an .npz or .safetensors file
    has an array `pass_logits` or `pass_probs` (T, N, C), the page also shows where the T stochastic passes disagree.
    Each source is compared with the first. Above 100,000 examples, intervals come from resamples of groups of examples.

    Example: singleshot report runs/a predictions.npz -o report.html

    Args:
        sources: files of predictions, or run folders of `singleshot train`.
        files: how to read files of predictions.
        runs: how to evaluate trained runs.
        output: the .html file to write.
        title: heading of the page. Default: a question about the calibration of the sources.
        bins: equal-width bins of the confidence at first; the page has a slider for others.
        replicates: bootstrap resamples for intervals and comparisons, 0 for none. Default: 1000, or none above a
            million examples.
        dataset: for files: the dataset whose test images (or --split train) they predict, in its order. The page
            then shows the images of confident mistakes.
        as_json: also print the data of the page as JSON.
    """
    if not sources:
        raise ValueError("give a file of predictions or a run: singleshot report predictions.npz -o report.html")
    if output.suffix.lower() != ".html":
        raise ValueError(f"--output {output} must end in .html")
    if output.is_dir():
        raise ValueError(f"--output {output} is a folder; give the name of a file")
    if dataset is not None and runs.split == "validation":
        raise ValueError("--dataset has only test and train images; --split validation is for runs")
    from singleshot.common.checks import check_range
    from singleshot.data import load_dataset
    from singleshot.evaluation.evaluation import check_options
    from singleshot.predictions import read_predictions
    from singleshot.predictions.formats import is_predictions
    from singleshot.reporting.one_call import page_title
    from singleshot.reporting.page import file_report, run_report, write_page
    from singleshot.reporting.page.content import MAX_BINS
    from singleshot.reporting.page.next_step import command_line
    from singleshot.reporting.page.outcomes import IMAGE_SIZE
    from singleshot.training.run import Run

    check_options(bins=bins, replicates=replicates)
    check_range("--bins", bins, f"[1, {MAX_BINS}]")
    for source in sources:  # a bad source is refused before the evaluation of the others starts
        if not source.exists():
            raise ValueError(f"{source} does not exist; give a file of predictions or a run folder")
        if is_predictions(source):
            read_predictions(source, **asdict(files))
        else:
            Run.open(source).checkpoint(runs.weights)
    check_writable(output)
    names = _short_names(sources)
    images = None
    if dataset is not None:
        loaded = load_dataset(dataset, data_root=runs.data_root, image_size=IMAGE_SIZE)
        images = loaded.test if runs.split == "test" else loaded.train

    def reports() -> Iterator[ModelReport]:
        """Evaluate the sources one at a time."""
        for source, name in zip(sources, names, strict=True):
            if is_predictions(source):
                yield file_report(source, name=name, bins=bins, replicates=replicates, images=images, **asdict(files))
            else:
                yield run_report(source, name=name, bins=bins, replicates=replicates, **asdict(runs))

    options = {**asdict(files), "bins": bins, "replicates": replicates, "dataset": dataset, **asdict(runs)}
    command = command_line("report", *sources, "-o", str(output), **options)
    data = write_page(reports(), output, title=title or page_title(names), replicates=replicates, command=command)
    if as_json:
        print(json.dumps(data, indent=2, allow_nan=False))
        return
    for model in data["models"]:
        print(f"{model['name']}: {model['badge']}. {model['sentences'][0]}")
    print(f"Report:  {printable(str(output))}")


def _short_names(paths: Sequence[Path]) -> list[str]:
    """Name each path by its last part, or by the whole path if several have the same last part.

    >>> _short_names([Path("runs/a"), Path("b.npz"), Path("old/b.npz"), Path()])
    ['a', 'b.npz', 'old/b.npz', '.']
    """
    last_parts = [path.name for path in paths]
    return [path.name if path.name and last_parts.count(path.name) == 1 else str(path) for path in paths]
