"""``singleshot evaluate``: how far the confidence of a trained run, or of any file of predictions, can be trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from singleshot.common.text import printable

if TYPE_CHECKING:
    from singleshot.evaluation.sources import Compared, Evaluated

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
    """Measure accuracy and calibration, with intervals, of files of predictions and of trained runs.

    A file of predictions holds scores for N examples and C classes, and their labels:

    .npz, .safetensors: arrays `logits` or `probs` (N, C), and `labels` (N,); `class_names` if there are any.

    .csv, .csv.gz, .parquet: columns `logit_CLASS` or `prob_CLASS`, and `label`; or columns of lists in .parquet.

    .npy: scores in a file with logits or probs in its name, labels in another, named with --labels.

    Labels are names of classes or, where they are whole numbers, class indices counted from 0. Whether scores are
    logits or probabilities is said by their name or by --kind, and never guessed. Files may be larger than memory.
    Several sources are compared with the first.

    Example: singleshot evaluate predictions.csv --figure reliability.png

    Example: singleshot evaluate before.npz after.npz --accuracy 0.95

    Example: singleshot evaluate runs/a --json

    Args:
        sources: files of predictions, or folders that `singleshot train` has made.
        kind: what scores are, where their name does not say, or which to take where there are both.
        scores: name of the array that holds the scores, or what the names of their columns begin with.
        labels: name of the array or column of labels; for an .npy file, the .npy file with its labels.
        labels_are: what whole numbers among the labels are, where classes are named by other numbers than their
            indices.
        bins: equal-width bins of the confidence.
        classwise: measure the classwise ECE too.
        replicates: bootstrap resamples for the intervals, and for comparisons, 0 for none; by default 1000 for up to
            a million examples, and none for more; fewer than 30 have none.
        accuracy: also find the lowest confidence from which predictions are sure to be right this often.
        figure: draw reliability diagrams to this .png, .pdf or .svg file.
        split: of a run, the test images; or those it was validated on, or trained on.
        weights: of a run's last checkpoint, or of the one that was best on the validation images.
        predictions: write the logits and labels of a run to this .npz file as well.
        data_root: where the data sets of runs are; by default $SINGLESHOT_DATA, then the user's cache.
        device: for runs: cpu, cuda, cuda:1, mps; auto takes the best there is.
        as_json: print every number, the bins too, as JSON instead of a table.
    """
    _check_numbers(bins, replicates, accuracy)
    _check_files(sources, figure, predictions)
    from singleshot.evaluation.sources import Wanted, comparisons, evaluate_source

    wanted = Wanted(
        bins=bins,
        classwise=classwise,
        replicates=replicates,
        keep_examples=accuracy is not None,
        told={"kind": kind, "scores": scores, "labels": labels, "labels_are": labels_are},
        of_run={"split": split, "weights": weights, "data_root": data_root, "device": device},
        predictions=predictions,
    )
    found = [evaluate_source(source, wanted) for source in sources]
    compared = comparisons(found, replicates, bins)
    if figure is not None:
        _save_figure(found, figure)
    if as_json:
        _print_json(found, compared, accuracy)
        return
    _print_tables(found, compared, accuracy)
    if figure is not None:
        print(f"The picture:  {printable(str(figure))}")


def _check_numbers(bins: int, replicates: int | None, accuracy: float | None) -> None:
    if bins < 1:
        raise ValueError(f"--bins must be at least 1, got {bins}")
    if replicates is not None and replicates != 0 and replicates < 2:
        raise ValueError(f"--replicates must be at least 2, or 0 for no intervals, got {replicates}")
    if accuracy is not None and not 0 < accuracy < 1:
        raise ValueError(f"--accuracy must lie strictly between 0 and 1, such as 0.95, got {accuracy}")


def _check_files(sources: tuple[Path, ...], figure: Path | None, predictions: Path | None) -> None:
    if not sources:
        raise ValueError("name a file of predictions or a run: singleshot evaluate predictions.npz")
    if figure is not None and figure.suffix.lower() not in FIGURES:
        raise ValueError(f"--figure {figure} must end in {', '.join(FIGURES)}")
    if predictions is not None and predictions.suffix != ".npz":
        raise ValueError(f"--predictions {predictions} must end in .npz")
    if predictions is not None and len(sources) > 1:
        raise ValueError(f"--predictions {predictions} takes those of one run; name one run at a time")


def _print_json(found: list[Evaluated], compared: list[Compared], accuracy: float | None) -> None:
    documents = [one.to_dict(accuracy) for one in found]
    whole: dict[str, Any] = documents[0]
    if len(found) > 1:
        whole = {"evaluations": documents, "comparisons": [one.to_dict() for one in compared]}
    print(json.dumps(whole, indent=2, allow_nan=False))


def _print_tables(found: list[Evaluated], compared: list[Compared], accuracy: float | None) -> None:
    from singleshot.evaluation.text import comparison_lines

    paragraphs = [one.lines(accuracy) for one in found]
    if len(found) > 1:
        paragraphs.append(comparison_lines([one.name for one in found], [one.evaluation.metrics() for one in found]))
    paragraphs += [comparison.lines() for comparison in compared]
    print("\n\n".join("\n".join(lines) for lines in paragraphs))


def _save_figure(found: list[Evaluated], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")  # drawing to a file needs no screen
    import matplotlib.pyplot as plt

    from singleshot.common.files import write_atomically
    from singleshot.report import plot_reliability

    across = min(len(found), 3)
    down = -(-len(found) // across)
    picture, axes = plt.subplots(down, across, figsize=(4 * across, 4.8 * down), layout="constrained", squeeze=False)
    for ax in axes.flat[len(found) :]:
        ax.set_axis_off()
    for ax, one in zip(axes.flat, found, strict=False):
        plot_reliability(one.evaluation.result, ax=ax, title=one.name)
    picture.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    write_atomically(path, lambda temporary: picture.savefig(temporary, dpi=110))
    plt.close(picture)
