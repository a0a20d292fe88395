"""Calibration after training: each ``fit(logits, labels)`` returns an ``nn.Module`` that maps logits to logits."""

from os import PathLike
from pathlib import Path

from singleshot.posthoc.linear import MatrixScaling, VectorScaling
from singleshot.posthoc.nonparametric import HistogramBinning, IsotonicScaling
from singleshot.posthoc.scaling import Scaling, read_scaling
from singleshot.posthoc.temperature import TemperatureScaling

__all__ = [
    "SCALINGS",
    "HistogramBinning",
    "IsotonicScaling",
    "MatrixScaling",
    "Scaling",
    "TemperatureScaling",
    "VectorScaling",
    "load_scaling",
]

SCALINGS: dict[str, type[Scaling]] = {
    scaling.method: scaling
    for scaling in (TemperatureScaling, VectorScaling, MatrixScaling, IsotonicScaling, HistogramBinning)
}
"""Method name to class, in order of increasing flexibility."""


def load_scaling(path: str | PathLike[str]) -> Scaling:
    """Read a scaling of any method that ``save`` has written. No code in the file is run.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     TemperatureScaling(temperature=1.5).save(f"{folder}/scaling.json")
    ...     load_scaling(f"{folder}/scaling.json")
    TemperatureScaling(temperature=1.5)
    """
    return read_scaling(Path(path), SCALINGS)
