"""What a finished run of a grid is worth, as one plain JSON file holds it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from singleshot.grid.job import Job
from singleshot.metrics import Calibration, VarianceHistogram

FORMAT = "singleshot.result/1"


@dataclass(frozen=True)
class Rescaled:
    """Test predictions after temperature scaling, and what the temperature was fitted on."""

    fitted_on: str  # "train" (the paper's case 1) or "validation" (case 2)
    temperature: float
    bounded: bool  # no finite temperature was best: a network that knows its images by heart, say
    calibration: Calibration = field(repr=False)


@dataclass(frozen=True)
class Result:
    """A run, where and how long it was made, and its calibration; all metrics follow from the states kept here."""

    job: Job
    seconds: float  # of training, by the clock
    cpu_seconds: float | None  # of training, by the processor, which other work does not lengthen; None: not recorded
    device: str
    environment: dict[str, Any]  # that its training was begun in
    data: dict[str, Any]  # of the images: how many, of how many classes, and their statistics
    splits: dict[str, Calibration]  # one forward pass per image: "test", and "validation" where images were held out
    rescaled: Rescaled
    variance: VarianceHistogram | None  # of stochastic passes over the test images; None for a network without noise
    measured_in: dict[str, Any] | None = None  # the environment, where its versions are not those

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
            "bounded": self.rescaled.bounded,
            **_with_metrics(self.rescaled.calibration),
        }
        return {
            "format": FORMAT,
            "key": self.job.key,
            **self.job.to_dict(),
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "device": self.device,
            "environment": self.environment,
            "data": self.data,
            "splits": {name: _with_metrics(calibration) for name, calibration in self.splits.items()},
            "rescaled": rescaled,
            "variance": None if self.variance is None else self.variance.to_dict(),
            "measured_in": self.measured_in,
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
            measured_in = content.get("measured_in")  # older results lack it
            splits = {str(name): _calibration(split["calibration"]) for name, split in content["splits"].items()}
            if set(splits) != expected:
                raise KeyError(f"its splits are {', '.join(splits)}, not {', '.join(sorted(expected))}")  # noqa: TRY301
            return cls(
                job=job,
                seconds=_positive(content["seconds"], or_zero=True),
                cpu_seconds=None if content["cpu_seconds"] is None else _positive(content["cpu_seconds"]),
                device=str(content["device"]),
                environment=_object(content["environment"]),
                data=_data(content["data"]),
                splits=splits,
                rescaled=Rescaled(
                    fitted_on="validation" if "validation" in expected else "train",
                    temperature=_positive(rescaled["temperature"]),
                    bounded=bool(rescaled["bounded"]),
                    calibration=_calibration(rescaled["calibration"]),
                ),
                variance=None if variance is None else _variance(variance),
                measured_in=None if measured_in is None else _object(measured_in),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ValueError(f"{source}: a damaged result ({error})") from None


def _with_metrics(calibration: Calibration) -> dict[str, Any]:
    """The metrics are for readers of the file; only the state is read back."""
    computed = calibration.compute().to_dict()
    del computed["bins"]
    return {"metrics": computed, "calibration": calibration.to_dict()}


def _positive(value: Any, *, or_zero: bool = False) -> float:
    number = float(value)
    if not (0 < number < math.inf or (or_zero and number == 0)):
        raise ValueError(f"{value!r} must be finite and above 0")
    return number


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"an object was expected, not a {type(value).__name__}")
    return value


def _data(value: Any) -> dict[str, Any]:
    data = _object(value)
    for name in ("train", "test", "classes"):
        if type(data.get(name)) is not int:
            raise TypeError(f"its data has {name} {data.get(name)!r}, not a number of them")
    return data


def _calibration(content: Any) -> Calibration:
    state = Calibration.from_dict(content)
    brier = state.compute().brier  # an error where no example was seen
    if brier > 2 * (1 + 1e-6):  # probabilities sum to 1 but for rounding
        raise ValueError(f"its Brier score is {brier:g}, and can be 2 at most")
    return state


def _variance(content: Any) -> VarianceHistogram:
    state = VarianceHistogram.from_dict(content)
    state.compute()  # an error where no example was seen
    return state
