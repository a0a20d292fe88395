"""The methods by name, and the one function that reads any of them from a file."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from singleshot.posthoc.histogram import HistogramBinning
from singleshot.posthoc.isotonic import IsotonicScaling
from singleshot.posthoc.linear import MatrixScaling, VectorScaling
from singleshot.posthoc.scaling import Scaling
from singleshot.posthoc.storage import read_parameters
from singleshot.posthoc.temperature import TemperatureScaling

SCALINGS: dict[str, type[Scaling]] = {
    scaling.method: scaling
    for scaling in (TemperatureScaling, VectorScaling, MatrixScaling, IsotonicScaling, HistogramBinning)
}
"""Method name to class, from the fewest parameters to the most freedom."""


def load_scaling(path: str | PathLike[str]) -> Scaling:
    """Read what ``save`` of any method has written; no code in the file is run.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     TemperatureScaling(1.5).save(f"{folder}/fitted.json")
    ...     load_scaling(f"{folder}/fitted.json")
    TemperatureScaling(temperature=1.5)
    """
    method, parameters = read_parameters(Path(path))
    if method not in SCALINGS:
        raise ValueError(f"{path} holds method {method[:50]!r}, which is unknown; known are {', '.join(SCALINGS)}")
    return SCALINGS[method].from_checked_file(path, parameters)
