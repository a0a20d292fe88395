"""``singleshot evaluate``: accuracy and calibration of prediction files and trained runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tyro.conf import OmitArgPrefixes

from singleshot.cli.options import AsJson, Flag, Paths, ReadOptions, RunOptions
from singleshot.common.text import printable

FIGURES = (".png", ".pdf", ".svg")


def evaluate(  # noqa: PLR0917
    sources: Paths,
    files: OmitArgPrefixes[ReadOptions],
    runs: OmitArgPrefixes[RunOptions],
    bins: int = 20,
    classwise: Flag = False,
    replicates: int | None = None,
    accuracy: float | None = None,
    figure: Path | None = None,
    predictions: Path | None = None,
    as_json: AsJson = False,
) -> None:
    """Measure accuracy and calibration, with intervals, of prediction files and trained runs.

    A prediction file holds scores for N examples and C classes, and their labels:

    .npz, .safetensors: arrays `logits` or `probs` (N, C), and `labels` (N,); optionally `class_names`.

    .csv, .tsv, .txt, .jsonl, .parquet, .feather: columns `logit_CLASS` or `prob_CLASS`, and `label`; or a list.

    Instead of all scores: the confidence of the predicted class, or the score of the positive class of two.

    .npy: scores in a file with logits or probs in its name; labels in another file, given by --labels.

    Labels are class names or class indices counted from 0. The name of the scores or --kind states whether they are
    logits or probabilities. Files may be larger than memory. Each further source is compared with the first.

    Example: singleshot evaluate predictions.csv --figure reliability.png

    Example: singleshot evaluate before.npz after.npz --accuracy 0.95

    Example: singleshot evaluate runs/a --json

    Args:
        sources: prediction files, or output folders of `singleshot train`.
        files: how to read files of predictions.
        runs: how to evaluate trained runs.
        bins: equal-width bins of the confidence.
        classwise: also compute the classwise ECE.
        replicates: bootstrap resamples for intervals and comparisons, 0 for none. Default: 1000 for 30 to a million
            examples, otherwise none.
        accuracy: also find the lowest confidence threshold that guarantees this accuracy.
        figure: draw reliability diagrams to this .png, .pdf or .svg file.
        predictions: also write the logits and labels of a run to this .npz file.
        as_json: print every number as JSON, including the bins.
    """
    _check_arguments(sources, figure, predictions)
    from singleshot.evaluation.evaluation import check_options, compare, evaluate_file
    from singleshot.evaluation.loaded_run import LoadedRun
    from singleshot.evaluation.summary import comparison_lines, evaluation_dict, evaluation_lines, table_lines
    from singleshot.predictions import read_predictions
    from singleshot.predictions.formats import is_predictions

    check_options(bins=bins, replicates=replicates, accuracy=accuracy)
    keep = accuracy is not None
    options: dict[str, Any] = {"bins": bins, "classwise": classwise, "replicates": replicates, "keep_examples": keep}
    found = []
    for source in sources:
        if not is_predictions(source):
            run = LoadedRun.open(source, **asdict(runs))
            found.append(run.evaluate(predictions=predictions, **options))
            continue
        if predictions is not None:
            raise ValueError(f"--predictions {predictions} is only for runs; {source} is a file of predictions")
        found.append(evaluate_file(read_predictions(source, **asdict(files)), **options))
    others = [] if replicates == 0 else found[1:]
    compared = [compare(one, found[0], replicates=replicates, bins=bins) for one in others]
    if figure is not None:
        from singleshot.reporting.figures import save_reliability

        save_reliability([(one.name, one.result) for one in found], figure)
    if as_json:
        content: dict[str, Any] = evaluation_dict(found[0], accuracy)
        if len(found) > 1:
            evaluations = [evaluation_dict(one, accuracy) for one in found]
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
        raise ValueError(f"--figure {figure} must end in .png, .pdf or .svg")
    if predictions is not None and predictions.suffix != ".npz":
        raise ValueError(f"--predictions {predictions} must end in .npz")
    if predictions is not None and len(sources) > 1:
        raise ValueError(f"--predictions {predictions} needs a single run, got {len(sources)} sources")
