"""``singleshot evaluate``: how far the confidence of a trained run can be trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

if TYPE_CHECKING:
    from singleshot.metrics import CalibrationResult

SHOWN = ("accuracy", "ece", "mce", "nll", "brier", "mean_confidence")


def evaluate(  # noqa: PLR0917
    run: Positional[Path],
    split: Literal["test", "validation", "train"] = "test",
    weights: Literal["last", "best"] = "last",
    predictions: Path | None = None,
    data_root: Path | None = None,
    device: str = "auto",
    as_json: Annotated[bool, arg(name="json")] = False,
) -> None:
    """Measure accuracy and calibration of a run, from one forward pass per image.

    Example: singleshot evaluate runs/a --json

    Args:
        run: folder that `singleshot train` has made.
        split: the test images; or those the run was validated on, or trained on.
        weights: of the last checkpoint, or of the one that was best on the validation images.
        predictions: write the logits and labels to this .npz file as well.
        data_root: where the data sets are; by default $SINGLESHOT_DATA, then the user's cache.
        device: cpu, cuda, cuda:1, mps; auto takes the best there is.
        as_json: print every number, the bins too, as JSON instead of a table.
    """
    from singleshot.training.judgement import evaluate_run

    if predictions is not None and predictions.suffix != ".npz":
        raise ValueError(f"--predictions {predictions} must end in .npz")
    result, step = evaluate_run(
        run, split=split, weights=weights, predictions=predictions, data_root=data_root, device=device
    )
    if as_json:
        about = {"run": str(run), "split": split, "weights": weights, "step": step}
        print(json.dumps({**about, **result.to_dict()}, indent=2, allow_nan=False))
    else:
        _print_table(result, f"{run}: {result.count:,} {split} images, one forward pass each, after step {step:,}")


def _print_table(result: CalibrationResult, title: str) -> None:
    print(title)
    metrics = result.metrics()
    for name in SHOWN:
        label = name.upper() if len(name) <= 3 else name.replace("_", " ").capitalize()
        print(f"  {label:<16} {metrics[name]:8.4f}")
    gap = result.mean_confidence - result.accuracy
    direction = "overconfident" if gap > 0 else "underconfident"
    print(f"On average {direction} by {abs(gap) * 100:.1f} points.")
