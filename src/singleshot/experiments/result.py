"""What a finished run of a grid is worth, as one plain JSON file holds it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from singleshot.experiments.job import Job
from singleshot.metrics import Calibration, VarianceHistogram

FORMAT = "singleshot.result/1"


@dataclass(frozen=True)
class Rescaled:
    """Test predictions after temperature scaling, and what the temperature was fitted on."""

    fitted_on: str  # "train" (the paper's case 1) or "validation" (case 2)
    temperature: float
    calibration: Calibration = field(repr=False)


@dataclass(frozen=True)
class Result:
    """A run, where and how long it was made, and its calibration; all metrics follow from the states kept here."""

    job: Job
    seconds: float  # of training
    environment: dict[str, Any]
    splits: dict[str, Calibration]  # one forward pass per image: "test", and "validation" where images were held out
    rescaled: Rescaled
    variance: VarianceHistogram | None  # of stochastic passes over the test images; None for a network without noise

    @property
    def test(self) -> Calibration:
        """The single-pass calibration on the test images."""
        return self.splits["test"]

    def metrics(self, split: str = "test") -> dict[str, float]:
        """Every metric on a split."""
        return self.splits[split].compute().metrics()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON: the metrics to read, and the states they come from."""
        rescaled = {
            "fitted_on": self.rescaled.fitted_on,
            "temperature": self.rescaled.temperature,
            **_with_metrics(self.rescaled.calibration),
        }
        return {
            "format": FORMAT,
            "key": self.job.key,
            **self.job.to_dict(),
            "seconds": self.seconds,
            "environment": self.environment,
            "splits": {name: _with_metrics(calibration) for name, calibration in self.splits.items()},
            "rescaled": rescaled,
            "variance": None if self.variance is None else self.variance.to_dict(),
        }

    @classmethod
    def from_dict(cls, content: Any, source: str) -> Result:
        """The result that `to_dict` gave; anything else is a ValueError that says what is wrong with it."""
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            found = content.get("format") if isinstance(content, dict) else None
            raise ValueError(f"{source}: its format is {found!r}, this version reads {FORMAT!r}")
        job = Job.from_dict(content, source)
        if content.get("key") != job.key:
            raise ValueError(f"{source}: it claims the key {content.get('key')!r}, its recipe has {job.key!r}")
        expected = {"test", "validation"} if job.recipe.validation else {"test"}
        try:
            rescaled = content["rescaled"]
            variance = content["variance"]
            splits = {
                str(name): Calibration.from_dict(split["calibration"]) for name, split in content["splits"].items()
            }
            if set(splits) != expected:
                raise KeyError(f"its splits are {', '.join(splits)}, not {', '.join(sorted(expected))}")  # noqa: TRY301
            return cls(
                job=job,
                seconds=float(content["seconds"]),
                environment=dict(content["environment"]),
                splits=splits,
                rescaled=Rescaled(
                    fitted_on=str(rescaled["fitted_on"]),
                    temperature=float(rescaled["temperature"]),
                    calibration=Calibration.from_dict(rescaled["calibration"]),
                ),
                variance=None if variance is None else VarianceHistogram.from_dict(variance),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{source}: a damaged result ({error})") from None


def _with_metrics(calibration: Calibration) -> dict[str, Any]:
    """The metrics are for readers of the file; only the state is read back."""
    computed = calibration.compute().to_dict()
    del computed["bins"]
    return {"metrics": computed, "calibration": calibration.to_dict()}
