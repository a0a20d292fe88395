"""``singleshot report``: one self-contained page about trained runs and files of predictions."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from singleshot.common.text import printable

if TYPE_CHECKING:
    from singleshot.data import Images
    from singleshot.report.page import Subject


def report(  # noqa: PLR0917
    sources: Positional[tuple[Path, ...]],
    output: Annotated[Path, arg(aliases=["-o"])] = Path("report.html"),
    title: str | None = None,
    kind: Literal["logits", "probs"] | None = None,
    scores: str | None = None,
    labels: str | None = None,
    labels_are: Literal["names", "indices"] | None = None,
    replicates: int | None = None,
    split: Literal["test", "validation", "train"] = "test",
    weights: Literal["last", "best"] = "last",
    dataset: str | None = None,
    data_root: Path | None = None,
    device: str = "auto",
    as_json: Annotated[bool, arg(name="json")] = False,
) -> None:
    """Write one HTML page that shows how far the confidence of runs and of files of predictions can be trusted.

    The page is a single file that opens from disk and needs no network: a verdict on each model, metrics with
    intervals, reliability diagrams, a threshold explorer, classes and confident mistakes; of runs, the images they get
    wrong and their training too. Its numbers are those of `singleshot evaluate`, which says what files may hold. Of an
    .npz or .safetensors file with an array `pass_logits` or `pass_probs` (T, N, C) it also shows where those T
    stochastic passes disagree. Each source is compared with the first. Above 100,000 examples, intervals come from
    resamples of groups of examples.

    Example: singleshot report runs/a predictions.npz -o report.html

    Args:
        sources: files of predictions, or folders that `singleshot train` has made.
        output: the .html file to write.
        title: heading of the page; by default it asks whether these scores can be trusted.
        kind: what scores are, where their name does not say, or which to take where there are both.
        scores: name of the array that holds the scores, or what the names of their columns begin with.
        labels: name of the array or column of labels; for an .npy file, the .npy file with its labels.
        labels_are: what whole numbers among the labels are, where classes are named by other numbers than their
            indices.
        replicates: bootstrap resamples for intervals and comparisons, 0 for none; by default 1000, and none above a
            million examples.
        split: of a run, the test images; or those it was validated on, or trained on.
        weights: of a run's last checkpoint, or of the one that was best on the validation images.
        dataset: of files, the data set whose test images (or --split train) they predict, in its order: the page shows
            those that are confidently wrong.
        data_root: where the data sets of runs are; by default $SINGLESHOT_DATA, then the user's cache.
        device: for runs: cpu, cuda, cuda:1, mps; auto takes the best there is.
        as_json: print everything the page shows as JSON as well.
    """
    if not sources:
        raise ValueError("name a file of predictions or a run: singleshot report predictions.npz -o report.html")
    if output.suffix.lower() != ".html":
        raise ValueError(f"--output {output} must end in .html")
    if output.is_dir():
        raise ValueError(f"--output {output} is a folder; name a file")
    if replicates is not None and replicates != 0 and replicates < 2:
        raise ValueError(f"--replicates must be at least 2, or 0 for no intervals, got {replicates}")
    if dataset is not None and split == "validation":
        raise ValueError("--dataset has test and train images; which were held out for validation, only a run knows")
    told = {"kind": kind, "scores": scores, "labels": labels, "labels_are": labels_are}
    of_run = {"split": split, "weights": weights, "data_root": data_root, "device": device}
    asked = {**told, "replicates": replicates, "dataset": dataset, "split": split, "weights": weights}
    _check_sources(sources, told, weights)
    _check_output(output)
    from singleshot.report.page import unique_names, write_page

    names = unique_names(sources)
    if not title:
        title = "Can these scores be trusted?" if len(names) > 1 else f"{names[0]}: can its scores be trusted?"
    subjects = _subjects(sources, names, told=told, of_run=of_run, replicates=replicates, dataset=dataset)
    command = _command(sources, output, {**asked, "data_root": data_root})
    data = write_page(subjects, output, title=title, replicates=replicates, command=command)
    if as_json:
        print(json.dumps(data, indent=2, allow_nan=False))
        return
    for model in data["models"]:
        print(f"{model['name']}: {model['verdict']}")
    print(f"The page:  {printable(str(output))}")


def _check_sources(sources: tuple[Path, ...], told: dict[str, Any], weights: str) -> None:
    """Refuse a source that cannot be opened, before minutes are spent on those that can."""
    from singleshot.predictions import read_predictions
    from singleshot.predictions.formats import is_predictions
    from singleshot.training.run import Run

    for source in sources:
        if not source.exists():
            raise ValueError(f"{source} does not exist: name a file of predictions, or the folder of a run")
        if is_predictions(source):
            read_predictions(source, **told)
        else:
            Run.open(source).checkpoint(weights)


def _check_output(output: Path) -> None:
    """Refuse a place where nothing can be written; nothing stays behind from trying."""
    folder = next(parent for parent in output.absolute().parents if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(f"--output {output} cannot be written: {error.strerror}: {folder}") from None


def _subjects(
    sources: tuple[Path, ...],
    names: list[str],
    *,
    told: dict[str, Any],
    of_run: dict[str, Any],
    replicates: int | None,
    dataset: str | None,
) -> Iterator[Subject]:
    """The sources, each measured when its turn comes."""
    from singleshot.predictions.formats import is_predictions
    from singleshot.report.page import subject_of_file
    from singleshot.report.page.gallery import EDGE, FEW_GALLERIES, SMALL_EDGE

    pictured = [source for source in sources if dataset is not None or not is_predictions(source)]
    edge = EDGE if len(pictured) <= FEW_GALLERIES else SMALL_EDGE
    images = None if dataset is None else _images(dataset, of_run["split"], of_run["data_root"])
    for source, name in zip(sources, names, strict=True):
        if is_predictions(source):
            yield subject_of_file(source, name=name, told=told, replicates=replicates, images=images, edge=edge)
        else:
            from singleshot.report.page.run_subject import subject_of_run

            yield subject_of_run(source, name=name, replicates=replicates, edge=edge, **of_run)


def _images(dataset: str, split: str, data_root: Path | None) -> Images:
    from singleshot.data import load_dataset
    from singleshot.report.page.gallery import EDGE

    loaded = load_dataset(dataset, data_root=data_root, image_size=EDGE)
    return loaded.test if split == "test" else loaded.train


def _command(sources: tuple[Path, ...], output: Path, options: dict[str, Any]) -> str:
    """What to type to have the page again."""
    from singleshot.report.page.subject import as_argument

    usual = {"split": "test", "weights": "last"}
    changed = {name: value for name, value in options.items() if value not in {None, usual.get(name)}}
    flags = [word for name, value in changed.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return shlex.join(["singleshot", "report", *map(as_argument, sources), "-o", str(output), *flags])
