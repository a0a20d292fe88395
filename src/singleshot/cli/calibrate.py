"""``singleshot calibrate``: post-hoc calibration of prediction files."""

from __future__ import annotations

import filecmp
import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import OmitArgPrefixes, Positional, arg

from singleshot.cli.options import AsJson, Flag, ReadOptions
from singleshot.common.text import printable

if TYPE_CHECKING:
    from singleshot.metrics import CalibrationResult

Method = Literal["temperature", "vector", "matrix", "isotonic", "histogram"]
SHOWN = ("accuracy", "mean_confidence", "ece", "mce", "nll", "brier")


def calibrate(  # noqa: PLR0917
    file: Positional[Path],
    files: OmitArgPrefixes[ReadOptions],
    fit_on: Path | None = None,
    method: Method = "temperature",
    output: Annotated[Path | None, arg(aliases=("-o",))] = None,
    save_scaling: Path | None = None,
    load_scaling: Path | None = None,
    fit_labels: str | None = None,
    bins: int = 20,
    allow_same: Flag = False,
    as_json: AsJson = False,
) -> None:
    """Fit a post-hoc calibration on held-out predictions, and apply it to other predictions.

    FILE is read in chunks, may be larger than memory, and is never changed. `singleshot evaluate --help` describes the
    formats of prediction files.

    Example: singleshot calibrate test.npz --fit-on val.npz --method temperature -o fixed.npz

    Example: singleshot calibrate new.npz --load-scaling scaling.json -o fixed.npz

    Args:
        file: predictions to calibrate.
        files: how to read files of predictions.
        fit_on: held-out predictions to fit on.
        method: temperature keeps every predicted class; the others are more flexible and need more data.
        output: write the new logits, labels and class names to this .npz or .csv file.
        save_scaling: write the fitted calibration to this .json file.
        load_scaling: apply a saved calibration instead of --fit-on.
        fit_labels: --labels of the file to fit on, if they differ; required to fit on an .npy file.
        bins: equal-width bins of the confidence for ECE and MCE.
        allow_same: allow fitting on FILE itself, which makes its metrics look better than they are.
        as_json: print every number as JSON, including the bins.
    """
    if (fit_on is None) == (load_scaling is None):
        raise ValueError("set either --fit-on FILE to fit a calibration, or --load-scaling FILE to apply a saved one")
    label_files = [Path(name) for name in (files.labels, fit_labels) if name is not None and _is_npy(name)]
    inputs = [path for path in (file, fit_on, load_scaling, *label_files) if path is not None]
    _check_output("--output", output, (".npz", ".csv"), inputs)
    _check_output("--save-scaling", save_scaling, (".json",), inputs)
    same = None if fit_on is None else _same_content(file, fit_on)
    if same and not allow_same:
        raise ValueError(
            f"{file} is {same} the file to fit on, so its metrics would look better than they are; set --fit-on to "
            "held-out predictions, or set --allow-same"
        )
    fit_labels = fit_labels or _labels_to_fit_on(fit_on, files.labels)
    from singleshot.common.checks import check_size
    from singleshot.evaluation.calibrating import check_same_classes, fit_scaling, rescale
    from singleshot.evaluation.evaluation import result_dict
    from singleshot.evaluation.label_check import LabelCheck
    from singleshot.posthoc import TemperatureScaling, load_scaling as read_scaling
    from singleshot.predictions import read_predictions

    check_size("--bins", bins, least=1)
    predictions = read_predictions(file, **asdict(files))
    checks = [(predictions, LabelCheck())]
    if fit_on is not None:
        held_out = read_predictions(fit_on, **asdict(replace(files, labels=fit_labels)))
        check_same_classes(held_out, predictions)
        checks.append((held_out, LabelCheck()))
        scaling = fit_scaling(held_out, method, checks[1][1])
    else:
        scaling = read_scaling(str(load_scaling))
    before, after = rescale(predictions, scaling, output=output, bins=bins, labels_fit=checks[0][1])
    if save_scaling is not None:
        scaling.save(save_scaling)
    about: dict[str, Any] = {
        "file": str(file),
        "calibrated_with": str(fit_on or load_scaling),
        "method": scaling.method,
    }
    if isinstance(scaling, TemperatureScaling):
        about["temperature"] = scaling.temperature
    about["evaluated_on_fit_file"] = same is not None
    if fit_on is not None:
        about["fit_examples"] = checks[1][1].count
    found = ((str(one.path), check.fault(one.positive, one.label_names)) for one, check in checks)
    faults = {path: fault for path, fault in found if fault is not None}
    if as_json:
        by_file = {"label_faults": {path: fault._asdict() for path, fault in faults.items()}} if faults else {}
        results = {"before": result_dict(before), "after": result_dict(after)}
        print(json.dumps({**about, **by_file, **results}, indent=2, allow_nan=False))
        return
    for path, fault in faults.items():
        print(printable(f"{path}: {fault.headline} {fault.advice}"))
    _print_table(about, predictions.classes, before, after)
    _print_written(output, save_scaling)


def _print_written(output: Path | None, save_scaling: Path | None) -> None:
    if output is None and save_scaling is None:
        print("Nothing was written: set -o FILE to write the calibrated predictions.")
    if output is not None:
        print(f"Predictions: {printable(str(output))}, in the order of the rows, without other columns")
    if save_scaling is not None:
        print(f"Calibration: {printable(str(save_scaling))}")


def _check_output(flag: str, path: Path | None, endings: tuple[str, ...], inputs: list[Path]) -> None:
    if path is None:
        return
    if path.suffix.lower() not in endings:
        raise ValueError(f"{flag} {path} must end in {' or '.join(endings)}")
    if any(_is_same(path, other) for other in inputs):
        raise ValueError(f"{flag} {path} is also an input; choose a different file")


def _labels_to_fit_on(fit_on: Path | None, labels: str | None) -> str | None:
    """Return the name of an array or column of labels, which both files have."""
    if fit_on is not None and _is_npy(fit_on.name):
        raise ValueError(f"--fit-on {fit_on} holds scores only; give the file of labels: --fit-labels labels.npy")
    return None if labels is None or _is_npy(labels) else labels


def _is_npy(name: str) -> bool:
    return name.lower().endswith(".npy")


def _same_content(file: Path, other: Path) -> str | None:
    """Say how a file has the content of another one, for a message; None if it does not."""
    if _is_same(file, other):
        return "also"
    is_copy = file.is_file() and other.is_file() and filecmp.cmp(file, other, shallow=False)
    return f"a copy of {other}," if is_copy else None


def _is_same(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()


def _print_table(about: dict[str, Any], classes: int, before: CalibrationResult, after: CalibrationResult) -> None:
    from singleshot.evaluation.evaluation import MIN_RESAMPLED
    from singleshot.evaluation.formatting import LABELS, amount, number
    from singleshot.evaluation.summary import average_gap
    from singleshot.predictions.validation import ZEROS

    how = f"{about['method']} {about['temperature']:.4f}" if "temperature" in about else about["method"]
    size = f"{amount(after.count, 'example')}, {amount(classes, 'class', 'classes')}"
    print(printable(f"{about['file']}: {size}; {how}, from {about['calibrated_with']}"))
    print(f"  {'':<16} {'before':>8} {'after':>8}")
    for name in (name for name in SHOWN if name in before.metrics() and name in after.metrics()):
        print(f"  {LABELS[name]:<16} {number(before.metrics()[name])} {number(after.metrics()[name])}")
    print(f"Before: {average_gap(before)}\nAfter:  {average_gap(after)}")
    if after.ece > before.ece and not after.nll <= before.nll:
        worse = "ECE" if math.isnan(after.nll) else "NLL and ECE"
        print(f"This calibration makes {worse} worse: do not use it for these predictions.")
    if math.isinf(before.nll):
        print(
            "Probabilities of 0 have no logarithm: those of an example share half of its smallest other probability, "
            f"at most {ZEROS:g}."
        )
    if about.get("fit_examples", MIN_RESAMPLED) < MIN_RESAMPLED:
        print(f"Too few examples to fit on ({about['fit_examples']}); hundreds are needed.")
    if about["evaluated_on_fit_file"]:
        print("Fitted on the evaluated file: expect worse metrics on new data.")
