"""Results of runs that were never made, from logits at hand: what tables and figures are tested with."""

from __future__ import annotations

from torch import Tensor

from singleshot.experiments.job import Job
from singleshot.experiments.result import Rescaled, Result
from singleshot.metrics import Calibration, VarianceHistogram

TEMPERATURE = 2.0


def fake_result(
    job: Job, *, logits: Tensor, labels: Tensor, passes: Tensor | None = None, seconds: float = 1.0
) -> Result:
    """The result of a run with these test logits (N, C) and labels (N,), and these stochastic passes (T, N, C).

    Where the recipe holds images out, the same logits stand for those; the temperature is always `TEMPERATURE`.
    """
    held_out = job.recipe.validation > 0
    variance = None
    if passes is not None:
        variance = VarianceHistogram(bins=20)
        variance.update(logits=passes, labels=labels)
    return Result(
        job=job,
        seconds=seconds,
        cpu_seconds=seconds,
        device="cpu",
        environment={"torch": "2"},
        data={"train": 1000, "test": len(labels), "classes": logits.shape[1]},
        splits={name: calibrated(logits, labels) for name in ("test", *(["validation"] if held_out else []))},
        rescaled=Rescaled(
            "validation" if held_out else "train", TEMPERATURE, False, calibrated(logits / TEMPERATURE, labels)
        ),
        variance=variance,
    )


def calibrated(logits: Tensor, labels: Tensor) -> Calibration:
    """The calibration of these predictions."""
    calibration = Calibration(bins=20)
    calibration.update(logits=logits, labels=labels)
    return calibration
