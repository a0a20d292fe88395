"""``singleshot export``: write a trained run as an ONNX or torch.export file."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from singleshot.cli.options import AsJson, Weights
from singleshot.common.text import printable

if TYPE_CHECKING:
    from singleshot.export import Exported


def export(  # noqa: PLR0917
    run: Positional[Path],
    output: Annotated[Path, arg(aliases=("-o",))],
    format: Literal["onnx", "torch-export"] = "onnx",
    weights: Weights = "last",
    temperature: str | None = None,
    as_json: AsJson = False,
) -> None:
    """Write the classifier of a trained run as one file that needs neither the run nor singleshot.

    The file takes uint8 images (batch, channels, height, width), normalizes them, and returns `logits` and `probs` of
    one pass without noise. Its metadata contain the class names, the normalization and the temperature. The file is
    run and compared with the network. It is kept only if they agree to 1e-5, relative to the largest logit if that is
    above 1; otherwise the exit code is 1. Load a .pt2 file only if you trust it: torch.export.load may run code in it.

    Example: singleshot export runs/a --format onnx -o a.onnx --temperature scaling.json

    Args:
        run: folder written by `singleshot train`.
        output: the file to write, ending in .onnx, or in .pt2 for torch-export.
        format: onnx or torch-export.
        weights: weights of the last checkpoint, or of the best one on the validation images.
        temperature: a number, or a file written by `singleshot calibrate --save-scaling`; it divides the logits.
        as_json: print the metadata of the file as JSON.
    """
    value = None if temperature is None else _read_temperature(temperature)
    from singleshot.training import export_run

    done = export_run(run, output, format=format, weights=weights, temperature=value)
    if as_json:
        about = {"path": str(done.path), "largest_difference": done.largest_difference}
        print(json.dumps({**about, **done.facts}, indent=2, allow_nan=False))
    else:
        _print(done)


def _read_temperature(text: str) -> float:
    """Return a number, or the temperature in the file of a scaling."""
    with suppress(ValueError):
        return float(text)
    path = Path(text)
    if not path.is_file():
        raise ValueError(f"--temperature {text} is neither a number nor a file")
    from singleshot.posthoc import TemperatureScaling

    return TemperatureScaling.load(path).temperature


def _print(done: Exported) -> None:
    facts, inputs, size = done.facts, done.facts["inputs"][0], done.path.stat().st_size / 1e6
    print(f"{printable(str(done.path))}: {facts['model']} after step {facts['step']:,}, {size:.1f} MB")
    print(f"  input   {inputs['dtype']} images ({', '.join(map(str, inputs['shape']))}), {inputs['values']}")
    print(f"  output  logits and probs of {facts['classes']} classes")
    if facts["temperature"] is not None:
        where = "folded into the last layer" if facts["temperature_folded"] else "applied as the last step"
        print(f"  temperature {facts['temperature']:g}, {where}")
    print(f"  largest difference from the network: {done.largest_difference:.1g}")
