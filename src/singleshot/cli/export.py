"""``singleshot export``: a trained run as a file that other programs run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from singleshot.common.text import printable

if TYPE_CHECKING:
    from singleshot.export import Exported


def export(  # noqa: PLR0917
    run: Positional[Path],
    output: Annotated[Path, arg(aliases=("-o",))],
    format: Literal["onnx", "torch-export"] = "onnx",
    weights: Literal["last", "best"] = "last",
    temperature: str | None = None,
    as_json: Annotated[bool, arg(name="json")] = False,
) -> None:
    """Write the classifier of a trained run as one file that needs neither the run nor singleshot.

    It takes uint8 images (batch, channels, height, width) as they are, normalizes them itself, and gives `logits` and
    `probs`, from one pass without noise. Its metadata hold the class names, the normalization and the temperature. The
    file is run and compared with the network, and kept only if they agree to 1e-5, relative to the largest logit where
    that is above 1; else the exit code is 1. torch.export.load, which reads a .pt2 file, may run code in it: load only
    those that you trust.

    Example: singleshot export runs/a --format onnx -o a.onnx --temperature scaling.json

    Args:
        run: folder that `singleshot train` has made.
        output: the file to write, ending in .onnx, or in .pt2 for torch-export.
        format: onnx, or torch-export for PyTorch's own.
        weights: of the last checkpoint, or of the one that was best on the validation images.
        temperature: a number, or a file of `singleshot calibrate --save-scaling`; it goes into the last layer.
        as_json: print what the file says of itself as JSON.
    """
    value = None if temperature is None else _temperature(temperature)
    from singleshot.export import export_run

    done = export_run(run, output, format=format, weights=weights, temperature=value)
    if as_json:
        about = {"path": str(done.path), "largest_difference": done.largest_difference}
        print(json.dumps({**about, **done.facts}, indent=2, allow_nan=False))
    else:
        _print(done)


def _temperature(text: str) -> float:
    """A number, or what a file of temperature scaling holds."""
    try:
        return float(text)
    except ValueError:
        pass
    path = Path(text)
    if not path.is_file():
        raise ValueError(f"--temperature {text} is neither a number nor a file")
    from singleshot.posthoc import TemperatureScaling, load_scaling

    scaling = load_scaling(path)
    if not isinstance(scaling, TemperatureScaling):
        raise ValueError(
            f"--temperature {text} holds {scaling.method} scaling, and only a temperature can be folded into the "
            "network; singleshot calibrate --method temperature --save-scaling makes one"
        )
    return scaling.temperature


def _print(done: Exported) -> None:
    shape = ", ".join(str(size) for size in done.facts["input"]["shape"])
    name, size = printable(str(done.path)), done.path.stat().st_size / 1e6
    print(f"{name}: {done.facts['model']} after step {done.facts['step']:,}, {size:.1f} MB")
    print(f"  takes   {done.facts['input']['dtype']} images ({shape}), {done.facts['input']['values']}")
    print(f"  gives   logits and probs of {done.facts['classes']} classes")
    if done.facts["temperature"] is not None:
        where = "in the weights of its last layer" if done.facts["temperature_folded"] else "as its last step"
        print(f"  divides the logits by the temperature {done.facts['temperature']:g}, {where}")
    print(f"  agrees  with the network to {done.largest_difference:.1g}")
