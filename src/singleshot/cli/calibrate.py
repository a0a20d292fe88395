"""``singleshot calibrate``: fix the confidence of predictions that are there already."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from singleshot.common.text import printable

if TYPE_CHECKING:
    from singleshot.metrics import CalibrationResult

Method = Literal["temperature", "vector", "matrix", "isotonic", "histogram"]
SHOWN = ("accuracy", "mean_confidence", "ece", "mce", "nll", "brier")


def calibrate(  # noqa: PLR0917
    file: Positional[Path],
    fit_on: Path | None = None,
    method: Method = "temperature",
    output: Annotated[Path | None, arg(aliases=("-o",))] = None,
    save_scaling: Path | None = None,
    load_scaling: Path | None = None,
    kind: Literal["logits", "probs"] | None = None,
    scores: str | None = None,
    labels: str | None = None,
    fit_labels: str | None = None,
    labels_are: Literal["names", "indices"] | None = None,
    bins: int = 20,
    allow_same: bool = False,
    as_json: Annotated[bool, arg(name="json")] = False,
) -> None:
    """Learn a calibration from predictions on held-out data, and apply it to others.

    It is fitted on one file and judged on another: FILE is read a piece at a time, may be larger than memory, and is
    never changed. `singleshot evaluate --help` tells what files of predictions look like.

    Example: singleshot calibrate test.npz --fit-on val.npz --method temperature -o fixed.npz

    Again, on new predictions: singleshot calibrate new.npz --load-scaling scaling.json -o fixed.npz

    Args:
        file: predictions to fix.
        fit_on: predictions on held-out data to learn from.
        method: temperature keeps every predicted class; the others have more freedom and need more data.
        output: write the new logits, labels and class names to this .npz file.
        save_scaling: keep what was learned in this .json file.
        load_scaling: use what was learned before, instead of --fit-on.
        kind: what scores are, logits or probs, where their name does not say.
        scores: name of the array that holds the scores, or what the names of their columns begin with.
        labels: name of the array or column of labels; for an .npy file, the .npy file with its labels.
        fit_labels: the same for --fit-on, if it is another; an .npy file to fit on needs it.
        labels_are: what whole numbers among the labels are, where classes are named by other numbers than their
            indices.
        bins: equal-width bins of the confidence for ECE and MCE.
        allow_same: fit on the very file that is judged; its numbers will look better than they are.
        as_json: print every number, the bins too, as JSON instead of a table.
    """
    is_same = fit_on is not None and _is_same(file, fit_on)
    _check_files(fit_on, load_scaling, output, save_scaling)
    label_files = [Path(name) for name in (labels, fit_labels) if name is not None and _is_npy(name)]
    read_from = [path for path in (file, fit_on, load_scaling, *label_files) if path is not None]
    _check_written("--output", output, read_from)
    _check_written("--save-scaling", save_scaling, [*read_from, *([output] if output is not None else [])])
    labels_to_fit = _labels_to_fit(fit_on, labels, fit_labels)
    if is_same and not allow_same:
        raise ValueError(
            f"{file} cannot be both fitted on and judged by: the numbers would look better than they are. Give "
            "held-out predictions to --fit-on, or --allow-same if that is understood"
        )
    from singleshot.common.checks import check_size
    from singleshot.evaluation.rescaling import check_same_classes, fit_scaling, rescale
    from singleshot.evaluation.sources import result_dict
    from singleshot.posthoc.registry import load_scaling as read_scaling
    from singleshot.posthoc.temperature import TemperatureScaling
    from singleshot.predictions import read_predictions

    check_size("--bins", bins, least=1)
    predictions = read_predictions(file, kind=kind, scores=scores, labels=labels, labels_are=labels_are)
    if fit_on is not None:
        fitted_on = read_predictions(fit_on, kind=kind, scores=scores, labels=labels_to_fit, labels_are=labels_are)
        check_same_classes(fitted_on, predictions)
        scaling = fit_scaling(fitted_on, method)
    else:
        scaling = read_scaling(str(load_scaling))
    before, after = rescale(predictions, scaling, output=output, bins=bins)
    if save_scaling is not None:
        scaling.save(save_scaling)
    about: dict[str, Any] = {"file": str(file), "learned_from": str(fit_on or load_scaling), "method": scaling.method}
    if isinstance(scaling, TemperatureScaling):
        about["temperature"] = scaling.temperature
    about["judged_on_the_fitting_file"] = is_same
    if as_json:
        print(
            json.dumps({**about, "before": result_dict(before), "after": result_dict(after)}, indent=2, allow_nan=False)
        )
        return
    _print_table(about, predictions.classes, before, after)
    for what, path in (("The new predictions", output), ("The calibration", save_scaling)):
        if path is not None:
            print(f"{what}:  {printable(str(path))}")


def _check_files(
    fit_on: Path | None, load_scaling: Path | None, output: Path | None, save_scaling: Path | None
) -> None:
    if (fit_on is None) == (load_scaling is None):
        raise ValueError("give either --fit-on FILE to learn from, or --load-scaling FILE with what was learned")
    if load_scaling is not None and not load_scaling.is_file():
        raise ValueError(f"--load-scaling {load_scaling}: there is no such file")
    if output is not None and output.suffix.lower() != ".npz":
        raise ValueError(f"--output {output} must end in .npz")
    if save_scaling is not None and save_scaling.suffix.lower() != ".json":
        raise ValueError(f"--save-scaling {save_scaling} must end in .json")


def _check_written(flag: str, path: Path | None, others: list[Path]) -> None:
    if path is not None and any(_is_same(path, other) for other in others):
        raise ValueError(f"{flag} {path} is a file that is read from, or written to by another flag; choose another")


def _labels_to_fit(fit_on: Path | None, labels: str | None, fit_labels: str | None) -> str | None:
    """What was said about labels holds for both files if it names an array or column, never if it is a file."""
    if fit_labels is not None:
        return fit_labels
    if fit_on is not None and _is_npy(fit_on.name):
        raise ValueError(f"--fit-on {fit_on} holds scores only; name the file of their labels: --fit-labels labels.npy")
    return None if labels is not None and _is_npy(labels) else labels


def _is_npy(name: str) -> bool:
    return name.lower().endswith(".npy")


def _is_same(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()


def _print_table(about: dict[str, Any], classes: int, before: CalibrationResult, after: CalibrationResult) -> None:
    from singleshot.evaluation.text import amount, average_gap, metric_label, number

    how = f"{about['method']} {about['temperature']:.4f}" if "temperature" in about else about["method"]
    size = f"{amount(after.count, 'example')}, {amount(classes, 'class', 'classes')}"
    print(printable(f"{about['file']}: {size}; {how}, from {about['learned_from']}"))
    print(f"  {'':<16} {'before':>8} {'after':>8}")
    for name in SHOWN:
        print(f"  {metric_label(name):<16} {number(before.metrics()[name])} {number(after.metrics()[name])}")
    print(f"Before: {average_gap(before)}\nAfter:  {average_gap(after)}")
    if about["judged_on_the_fitting_file"]:
        print("Fitted on the file it is judged by: on new data expect less.")
