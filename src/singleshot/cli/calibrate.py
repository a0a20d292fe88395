"""``singleshot calibrate``: fix the confidence of predictions that are there already."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

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
        fit_labels: the same for --fit-on, if it is another.
        bins: equal-width bins of the confidence for ECE and MCE.
        allow_same: fit on the very file that is judged; its numbers will look better than they are.
        as_json: print every number, the bins too, as JSON instead of a table.
    """
    is_same = fit_on is not None and _is_same(file, fit_on)
    _check_files(file, fit_on, load_scaling, output)
    if is_same and not allow_same:
        raise ValueError(
            f"{file} cannot be both fitted on and judged by: the numbers would look better than they are. Give "
            "held-out predictions to --fit-on, or --allow-same if that is understood"
        )
    from singleshot.checks import check_size
    from singleshot.posthoc.registry import load_scaling as read_scaling
    from singleshot.posthoc.temperature import TemperatureScaling
    from singleshot.predictions import read_predictions
    from singleshot.predictions.rescaling import check_same_classes, fit_scaling, rescale

    check_size("--bins", bins, least=1)
    predictions = read_predictions(file, kind=kind, scores=scores, labels=labels)
    if fit_on is not None:
        fitted_on = read_predictions(fit_on, kind=kind, scores=scores, labels=fit_labels or labels)
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
        print(json.dumps({**about, "before": before.to_dict(), "after": after.to_dict()}, indent=2, allow_nan=False))
        return
    _print_table(about, predictions.classes, before, after)
    for what, path in (("The new predictions", output), ("The calibration", save_scaling)):
        if path is not None:
            print(f"{what}:  {path}")


def _check_files(file: Path, fit_on: Path | None, load_scaling: Path | None, output: Path | None) -> None:
    if (fit_on is None) == (load_scaling is None):
        raise ValueError("give either --fit-on FILE to learn from, or --load-scaling FILE with what was learned")
    if load_scaling is not None and not load_scaling.is_file():
        raise ValueError(f"--load-scaling {load_scaling}: there is no such file")
    if output is None:
        return
    if output.suffix.lower() != ".npz":
        raise ValueError(f"--output {output} must end in .npz")
    if any(_is_same(output, other) for other in (file, fit_on) if other is not None):
        raise ValueError(f"--output {output} is a file that is read from; choose another")


def _is_same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def _print_table(about: dict[str, Any], classes: int, before: CalibrationResult, after: CalibrationResult) -> None:
    from singleshot.report.tables import metric_label, verdict

    how = f"{about['method']} {about['temperature']:.4f}" if "temperature" in about else about["method"]
    print(f"{about['file']}: {after.count:,} examples, {classes} classes; {how}, from {about['learned_from']}")
    print(f"  {'':<16} {'before':>8} {'after':>8}")
    for name in SHOWN:
        print(f"  {metric_label(name):<16} {before.metrics()[name]:8.4f} {after.metrics()[name]:8.4f}")
    print(f"Before: {verdict(before)}\nAfter:  {verdict(after)}")
    if about["judged_on_the_fitting_file"]:
        print("Fitted on the file it is judged by: on new data expect less.")
