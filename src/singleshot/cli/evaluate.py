"""``singleshot evaluate``: accuracy and calibration of prediction files and trained runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from singleshot.common.text import printable

if TYPE_CHECKING:
    from singleshot.evaluation.core import Evaluation

FIGURES = (".png", ".pdf", ".svg")


def evaluate(  # noqa: PLR0917
    sources: Positional[tuple[Path, ...]],
    kind: Literal["logits", "probs"] | None = None,
    scores: str | None = None,
    labels: str | None = None,
    labels_are: Literal["names", "indices"] | None = None,
    bins: int = 20,
    classwise: bool = False,
    replicates: int | None = None,
    accuracy: float | None = None,
    figure: Path | None = None,
    split: Literal["test", "validation", "train"] = "test",
    weights: Literal["last", "best"] = "last",
    predictions: Path | None = None,
    data_root: Path | None = None,
    device: str = "auto",
    as_json: Annotated[bool, arg(name="json")] = False,
) -> None:
    """Measure accuracy and calibration, with intervals, of prediction files and trained runs.

    A prediction file holds scores for N examples and C classes, and their labels:

    .npz, .safetensors: arrays `logits` or `probs` (N, C), and `labels` (N,); optionally `class_names`.

    .csv, .csv.gz, .parquet: columns `logit_CLASS` or `prob_CLASS`, and `label`; or list columns in .parquet.

    .npy: scores in a file with logits or probs in its name; labels in another file, given by --labels.

    Labels are class names or class indices counted from 0. The name of the scores or --kind states whether they are
    logits or probabilities. Files may be larger than memory. Each further source is compared with the first.

    Example: singleshot evaluate predictions.csv --figure reliability.png

    Example: singleshot evaluate before.npz after.npz --accuracy 0.95

    Example: singleshot evaluate runs/a --json

    Args:
        sources: prediction files, or output folders of `singleshot train`.
        kind: what the scores are if their name does not tell, or which to use if the file has both.
        scores: name of the array that holds the scores, or prefix of the names of their columns.
        labels: name of the array or column of labels; for an .npy file, the .npy file with its labels.
        labels_are: meaning of integer labels, if classes are named by numbers other than their indices.
        bins: equal-width bins of the confidence.
        classwise: also compute the classwise ECE.
        replicates: bootstrap resamples for intervals and comparisons, 0 for none. Default: 1000 for 30 to a million
            examples, otherwise none.
        accuracy: also find the lowest confidence threshold that guarantees this accuracy.
        figure: draw reliability diagrams to this .png, .pdf or .svg file.
        split: images of a run to evaluate on.
        weights: the last checkpoint of a run, or the best on its validation images.
        predictions: also write the logits and labels of a run to this .npz file.
        data_root: folder of the datasets of runs. Default: $SINGLESHOT_DATA, then the user's cache.
        device: device for runs: cpu, cuda, cuda:1, mps, or auto.
        as_json: print every number as JSON, including the bins.
    """
    _check_arguments(sources, figure, predictions)
    from singleshot.evaluation.comparison import Baseline
    from singleshot.evaluation.core import check_options, evaluate_file
    from singleshot.evaluation.runs import LoadedRun
    from singleshot.evaluation.summary import comparison_lines, evaluation_lines, table_lines
    from singleshot.predictions import read_predictions
    from singleshot.predictions.formats import is_predictions

    check_options(bins=bins, replicates=replicates, accuracy=accuracy)
    keep = accuracy is not None
    options: dict[str, Any] = {"bins": bins, "classwise": classwise, "replicates": replicates, "keep_examples": keep}
    found = []
    for source in sources:
        if not is_predictions(source):
            run = LoadedRun.open(source, split=split, weights=weights, data_root=data_root, device=device)
            found.append(run.evaluate(predictions=predictions, **options))
            continue
        if predictions is not None:
            raise ValueError(f"--predictions {predictions} is only for runs; {source} is a file of predictions")
        file = read_predictions(source, kind=kind, scores=scores, labels=labels, labels_are=labels_are)
        found.append(evaluate_file(file, **options))
    baseline = Baseline(found[0], replicates=replicates, bins=bins)
    compared = [] if replicates == 0 else [baseline.compare(one) for one in found[1:]]
    if figure is not None:
        _save_figure(found, figure)
    if as_json:
        content: dict[str, Any] = found[0].to_dict(accuracy)
        if len(found) > 1:
            evaluations = [one.to_dict(accuracy) for one in found]
            content = {"evaluations": evaluations, "comparisons": [one.to_dict() for one in compared]}
        print(json.dumps(content, indent=2, allow_nan=False))
        return
    paragraphs = [evaluation_lines(one, accuracy) for one in found]
    if len(found) > 1:
        paragraphs += [table_lines(found), *map(comparison_lines, compared)]
    print("\n\n".join("\n".join(lines) for lines in paragraphs))
    if figure is not None:
        print(f"Figure: {printable(str(figure))}")


def _check_arguments(sources: tuple[Path, ...], figure: Path | None, predictions: Path | None) -> None:
    if not sources:
        raise ValueError("give a file of predictions or a run: singleshot evaluate predictions.npz")
    if figure is not None and figure.suffix.lower() not in FIGURES:
        raise ValueError(f"--figure {figure} must end in {', '.join(FIGURES)}")
    if predictions is not None and predictions.suffix != ".npz":
        raise ValueError(f"--predictions {predictions} must end in .npz")
    if predictions is not None and len(sources) > 1:
        raise ValueError(f"--predictions {predictions} needs a single run, got {len(sources)} sources")


def _save_figure(found: list[Evaluation], path: Path) -> None:
    from matplotlib.figure import Figure

    from singleshot.common.files import write_atomically
    from singleshot.report import plot_reliability

    columns = min(len(found), 3)
    rows = -(-len(found) // columns)
    figure = Figure(figsize=(4 * columns, 4.8 * rows), layout="constrained")
    axes = [figure.add_subplot(rows, columns, index + 1) for index in range(len(found))]
    for ax, one in zip(axes, found, strict=True):
        plot_reliability(one.result, ax=ax, title=one.name)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    write_atomically(path, lambda temporary: figure.savefig(temporary, dpi=110))
