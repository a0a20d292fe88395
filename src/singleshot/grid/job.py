"""A job, which is one run of a sweep, and its result with its JSON form."""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from singleshot.metrics import Calibration, VarianceHistogram

if TYPE_CHECKING:
    from typing_extensions import Self

    from singleshot.training.display import Callback

FORMAT = "singleshot.result/1"


class Job(ABC):
    """One run of a sweep. Subclasses can be pickled; jobs with the same key give the same result."""

    @cached_property
    def key(self) -> str:
        """Hash of everything that determines the result."""
        return hash_key(self.to_dict())

    @property
    @abstractmethod
    def title(self) -> str:
        """Short description for progress displays."""

    @property
    @abstractmethod
    def folder(self) -> str:
        """Subfolder of the result store."""

    @property
    def requires(self) -> Job | None:
        """The job that must finish before this one starts."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        content: dict[str, Any] = msgspec.to_builtins(self)
        return content

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Return the job that `to_dict` wrote."""
        return msgspec.convert(content, cls)

    @abstractmethod
    def execute(self, workspace: Path, *, data_root: Path | None = None, callback: Callback | None = None) -> Result:
        """Run in ``workspace``, resuming an earlier attempt if possible, and return the result."""

    def check_result(self, result: Result) -> None:
        """Raise ValueError if ``result`` lacks a part that this job always measures."""
        if set(result.splits) != {"test"}:
            raise ValueError(f"its splits are {', '.join(result.splits)}, not test")


def hash_key(content: Any) -> str:
    """Return the key of a job from the plain values that determine its result."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Rescaled:
    """Test predictions after temperature scaling."""

    fitted_on: str  # "train" (case 1 of the paper) or "validation" (case 2)
    temperature: float
    bounded: bool  # no finite temperature is optimal, as for a network that has memorised its training images
    calibration: Calibration = field(repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature must be finite and above 0, got {self.temperature}")
        self.calibration.compute()  # raises if it is empty


@dataclass(frozen=True)
class Result:
    """A finished run: its cost, its environment and its calibration. All metrics derive from the states kept here."""

    job: Job
    seconds: float  # wall-clock training time
    cpu_seconds: float | None  # processor time of training; None: not recorded
    device: str
    environment: dict[str, Any]  # at the start of training
    data: dict[str, Any]  # number of images and classes, and image statistics
    splits: dict[str, Calibration]  # single-pass predictions: "test", and "validation" if images were held out
    rescaled: Rescaled | None = None
    variance: VarianceHistogram | None = None  # of stochastic passes over the test images; None: no noise
    measured_in: dict[str, Any] | None = None  # environment of the evaluation, if its versions differ
    curve: list[dict[str, Any]] | None = None  # metrics after several epochs, of a run that is tracked
    details: dict[str, Any] | None = None  # AURC, ranking of errors and calibration under shift, of such a run

    def __post_init__(self) -> None:
        if not 0 <= self.seconds < math.inf:
            raise ValueError(f"seconds must be finite and at least 0, got {self.seconds}")
        if self.cpu_seconds is not None and not 0 < self.cpu_seconds < math.inf:
            raise ValueError(f"cpu_seconds must be finite and above 0, got {self.cpu_seconds}")
        for name in ("train", "test", "classes"):
            if type(self.data.get(name)) is not int:
                raise TypeError(f"data must have an integer {name!r}, got {self.data.get(name)!r}")
        for calibration in self.splits.values():
            calibration.compute()  # raises if it is empty
        if self.variance is not None:
            self.variance.compute()  # raises if it is empty
        self.job.check_result(self)

    @property
    def test(self) -> Calibration:
        """Single-pass calibration on the test images."""
        return self.splits["test"]

    def metrics(self, split: str = "test") -> dict[str, float]:
        """Return every metric on a split."""
        return self.splits[split].compute().metrics()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: the metrics for readers, and the states they derive from."""
        rescaled = None
        if self.rescaled is not None:
            rescaled = {**vars(self.rescaled), **_with_metrics(self.rescaled.calibration)}
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
            **({} if self.curve is None else {"curve": self.curve, "details": self.details}),
        }

    @classmethod
    def from_dict(cls, content: Any, job_type: type[Job], source: str) -> Result:
        """Return the result that `to_dict` wrote; raise ValueError, naming ``source``, for anything else."""
        found = content.get("format") if isinstance(content, dict) else None
        if found != FORMAT:
            raise ValueError(f"{source}: its format is {found!r}, this version reads {FORMAT!r}")
        try:
            job = job_type.from_dict(content)
            splits = {name: split["calibration"] for name, split in content["splits"].items()}
            result = msgspec.convert({**content, "job": job, "splits": splits}, cls, dec_hook=_decode)
            for name, split in content["splits"].items():
                _check_metrics(split["metrics"], result.splits[name])
            if result.rescaled is not None:
                _check_metrics(content["rescaled"]["metrics"], result.rescaled.calibration)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ValueError(f"{source}: damaged result ({error})") from None
        if content.get("key") != job.key:
            raise ValueError(f"{source}: its key is {content.get('key')!r}, but its content has the key {job.key!r}")
        return result


def _with_metrics(calibration: Calibration) -> dict[str, Any]:
    """Return the state with its metrics, which are only compared with it when they are read back."""
    metrics = calibration.compute().to_dict()
    del metrics["bins"]
    return {"metrics": metrics, "calibration": calibration.to_dict()}


def _check_metrics(metrics: dict[str, Any], calibration: Calibration) -> None:
    """Raise ValueError if stored metrics are not those of the stored state: one of the two was changed."""
    for name, value in _with_metrics(calibration)["metrics"].items():
        stored = metrics.get(name, value)  # earlier versions stored fewer metrics
        is_number = None not in (stored, value)  # None: an infinite NLL
        if not (math.isclose(stored, value, rel_tol=1e-6, abs_tol=1e-9) if is_number else stored is value):
            raise ValueError(f"its {name} is {stored}, but its sums give {value}")


def _decode(kind: type, value: Any) -> Any:
    return value if isinstance(value, Job) else kind.from_dict(value)  # type: ignore[attr-defined]
