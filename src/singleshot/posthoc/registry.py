"""The scalings by method name, and the function that loads any of them from a file."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from singleshot.posthoc.frequencies import HistogramBinning, IsotonicScaling
from singleshot.posthoc.linear import MatrixScaling, VectorScaling
from singleshot.posthoc.scaling import Scaling, read_scaling
from singleshot.posthoc.temperature import TemperatureScaling

SCALINGS: dict[str, type[Scaling]] = {
    scaling.method: scaling
    for scaling in (TemperatureScaling, VectorScaling, MatrixScaling, IsotonicScaling, HistogramBinning)
}
"""Method name to class, in order of increasing flexibility."""


def load_scaling(path: str | PathLike[str]) -> Scaling:
    """Read a scaling of any method that ``save`` has written. No code in the file is run.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     TemperatureScaling(1.5).save(f"{folder}/fitted.json")
    ...     load_scaling(f"{folder}/fitted.json")
    TemperatureScaling(temperature=1.5)
    """
    return read_scaling(Path(path), SCALINGS)
