"""What the other libraries of docs/comparison.md are asked to do; a missing method is a missing feature.

Nothing here is imported before a method runs, so the file loads in an environment with one of the libraries only.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

Scores = Any


class Library:
    """A library: its name on the package index, its package, and the import of its calibration error."""

    distribution: str
    package: str
    statement: str
    added: tuple[str, ...] = ()
    """Modules that an installation lacks, and that were installed for the checks."""
    without: str = ""
    """What the number of its packages leaves out."""

    def prepare(self) -> None:
        """Make the package importable."""


class TorchMetric:
    """What torchmetrics and the libraries on top of it share."""

    def multiclass(self, classes: int) -> Any:
        from torchmetrics.classification import MulticlassCalibrationError

        return MulticlassCalibrationError(num_classes=classes, n_bins=15)

    def binary(self) -> Any:
        from torchmetrics.classification import BinaryCalibrationError

        return BinaryCalibrationError(n_bins=15)

    def updated(self, metric: Any, scores: Scores, labels: Scores) -> Any:
        import torch

        for part, answer in zip(np.array_split(scores, 2), np.array_split(labels, 2), strict=True):
            metric.update(torch.tensor(part), torch.tensor(answer))
        return metric

    def ece(self, probs: Scores, labels: Scores) -> float:
        return float(self.updated(self.multiclass(probs.shape[1]), probs, labels).compute())

    ece_of_logits = ece

    def binary_ece(self, probs: Scores, labels: Scores) -> float:
        return float(self.updated(self.binary(), probs, labels).compute())

    def state_bytes(self, probs: Scores, labels: Scores) -> int:
        return metric_bytes(self.updated(self.multiclass(probs.shape[1]), probs, labels))

    def merged_ece(self, parts: Iterable[tuple[Scores, Scores]]) -> float:
        first, second = (self.updated(self.multiclass(p.shape[1]), p, y) for p, y in parts)
        first.merge_state(second)
        return float(first.compute())

    def shared_ece(self, probs: Scores, labels: Scores) -> float:
        return self.ece(probs, labels)  # compute() gathers the examples of all processes

    def interval(self, probs: Scores, labels: Scores) -> tuple[float, float]:
        import torch
        from torchmetrics.wrappers import BootStrapper

        quantiles = torch.tensor([0.025, 0.975], dtype=torch.float32)
        metric = BootStrapper(self.multiclass(probs.shape[1]), num_bootstraps=100, quantile=quantiles)
        metric.update(torch.tensor(probs), torch.tensor(labels))
        low, high = metric.compute()["quantile"].tolist()
        return low, high


def metric_bytes(metric: Any) -> int:
    states = [getattr(metric, name) for name in metric._defaults]
    tensors = [tensor for state in states for tensor in (state if isinstance(state, list) else [state])]
    return sum(tensor.nbytes for tensor in tensors)


class Torchmetrics(TorchMetric, Library):
    """torchmetrics."""

    distribution, package = "torchmetrics", "torchmetrics"
    statement = "from torchmetrics.classification import MulticlassCalibrationError"


class TorchUncertainty(TorchMetric, Library):
    """TorchUncertainty, without the ``__init__`` files that import torchvision."""

    distribution, package = "torch-uncertainty", "torch_uncertainty"
    statement = "from torch_uncertainty.metrics import CalibrationError"
    without = ", without torch"

    def prepare(self) -> None:
        spec = importlib.util.find_spec(self.package)
        if spec is None or spec.submodule_search_locations is None:
            raise ModuleNotFoundError(self.package)
        folder = Path(next(iter(spec.submodule_search_locations)))
        for name in ("", "metrics", "utils"):
            bare = ModuleType(f"{self.package}.{name}".rstrip("."))
            bare.__path__ = [str(folder / name)]
            sys.modules[bare.__name__] = bare

    def multiclass(self, classes: int) -> Any:
        from torch_uncertainty.metrics.classification import CalibrationError

        return CalibrationError(task="multiclass", num_classes=classes, num_bins=15)

    def binary(self) -> Any:
        from torch_uncertainty.metrics.classification import CalibrationError

        return CalibrationError(task="binary", num_bins=15)

    def classwise_bytes(self, probs: Scores, labels: Scores) -> int:
        from torch_uncertainty.metrics.classification import ClasswiseCalibrationError

        return metric_bytes(self.updated(ClasswiseCalibrationError(probs.shape[1]), probs, labels))

    def brier(self, probs: Scores, labels: Scores) -> float:
        from torch_uncertainty.metrics.classification import BrierScore

        return float(self.updated(BrierScore(probs.shape[1]), probs, labels).compute())

    def aurc(self, probs: Scores, labels: Scores) -> float:
        from torch_uncertainty.metrics.classification import AURC

        return float(self.updated(AURC(), probs, labels).compute())

    def temperature(self, logits: Scores, labels: Scores) -> float:
        from torch_uncertainty.post_processing import TemperatureScaler

        scaler = TemperatureScaler()
        scaler.fit(loader(logits, labels), progress=False)
        return float(scaler.temperature[0])

    def passes(self, model: Any, inputs: Any) -> Any:
        from torch_uncertainty.methods import mc_dropout

        return mc_dropout(model, num_estimators=5, on_batch=False).eval()(inputs).reshape(5, len(inputs), -1)

    def losses(self) -> dict[str, Callable[..., Any]]:
        from torch_uncertainty import losses

        return {
            "focal": losses.FocalLoss(2.0),
            "confidence penalty": losses.ConfidencePenaltyLoss(),
            "conflictual": losses.ConflictualLoss(),
            "max suppression": losses.CrossEntropyMaxSupLoss(),
            "evidential": lambda logits, labels: losses.DECLoss(reg_weight=0.1)(logits.relu(), labels),
        }

    def scalings(self) -> dict[str, Callable[..., Any]]:
        from torch_uncertainty import post_processing as post

        by_classes = (post.VectorScaler, post.MatrixScaler, post.DirichletScaler)
        others = (post.TemperatureScaler, post.HistogramBinningScaler, post.IsotonicRegressionScaler, post.BBQScaler)

        def fit(make: Any, logits: Scores, labels: Scores) -> None:
            options = {"num_classes": logits.shape[1]} if make in by_classes else {}
            make(**options).fit(loader(logits, labels), progress=False)

        return {make.__name__: partial(fit, make) for make in (*by_classes, *others)}

    def diagram(self, probs: Scores, labels: Scores) -> Any:
        return self.updated(self.multiclass(probs.shape[1]), probs, labels).plot()[0]


def loader(logits: Scores, labels: Scores) -> Any:
    import torch

    pairs: Any = list(zip(torch.tensor(logits), torch.tensor(labels), strict=True))
    return torch.utils.data.DataLoader(pairs, batch_size=1000)


class Netcal(Library):
    """netcal."""

    distribution, package = "netcal", "netcal"
    statement = "from netcal.metrics import ECE"

    def ece(self, probs: Scores, labels: Scores) -> float:
        from netcal.metrics import ECE

        return float(ECE(bins=15).measure(probs, labels))

    binary_ece = ece

    def temperature(self, logits: Scores, labels: Scores) -> float:
        from netcal.scaling import TemperatureScaling

        scaling = TemperatureScaling()
        scaling.fit(softmax(logits), labels)
        return 1 / float(np.asarray(scaling.temperature).item())

    def losses(self) -> dict[str, Callable[..., Any]]:
        from netcal.regularization import ConfidencePenalty, DCAPenalty, MMCEPenalty

        return {"confidence penalty": ConfidencePenalty(), "DCA": DCAPenalty(), "MMCE": MMCEPenalty()}

    def scalings(self) -> dict[str, Callable[..., Any]]:
        from netcal import binning, scaling

        makes = (
            binning.HistogramBinning, binning.IsotonicRegression, binning.BBQ, binning.ENIR,
            scaling.TemperatureScaling, scaling.LogisticCalibration, scaling.BetaCalibration,
        )  # fmt: skip
        return {make.__name__: lambda z, y, make=make: make().fit(softmax(z), y) for make in makes}

    def diagram(self, probs: Scores, labels: Scores) -> Any:
        from netcal.presentation import ReliabilityDiagram

        return ReliabilityDiagram(15).plot(probs, labels)


def softmax(logits: Scores) -> Scores:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


class Probmetrics(Library):
    """probmetrics, with numba and pandas beside it, which it imports and does not require."""

    distribution, package = "probmetrics", "probmetrics"
    statement = "from probmetrics.metrics import CalibrationError"
    added = ("numba", "pandas")

    def compute(self, metric: Any, scores: Scores, labels: Scores, *, logits: bool = False) -> float:
        import torch
        from probmetrics.distributions import CategoricalLogits, CategoricalProbs

        onehot = CategoricalProbs(torch.eye(scores.shape[1])[torch.tensor(labels)])
        given = (CategoricalLogits if logits else CategoricalProbs)(torch.tensor(scores))
        return float(metric.compute(onehot, given))

    def ece(self, probs: Scores, labels: Scores) -> float:
        from probmetrics.metrics import CalibrationError

        return self.compute(CalibrationError(15), probs, labels)

    def ece_of_logits(self, logits: Scores, labels: Scores) -> float:
        from probmetrics.metrics import CalibrationError

        return self.compute(CalibrationError(15), logits, labels, logits=True)

    def binary_ece(self, probs: Scores, labels: Scores) -> float:
        return self.ece(np.stack([1 - probs, probs], 1), labels)

    def brier(self, probs: Scores, labels: Scores) -> float:
        from probmetrics.metrics import BrierLoss

        return self.compute(BrierLoss(), probs, labels)

    def temperature(self, logits: Scores, labels: Scores) -> float:
        import torch
        from probmetrics.calibrators import TemperatureScalingCalibrator
        from probmetrics.distributions import CategoricalLogits

        fitted = TemperatureScalingCalibrator().fit_torch(CategoricalLogits(torch.tensor(logits)), torch.tensor(labels))
        return 1 / float(fitted.invtemp_)

    def scalings(self) -> dict[str, Callable[..., Any]]:
        from probmetrics.calibrators import get_calibrator

        names = ("temp-scaling", "isotonic", "platt", "platt-logits", "svs", "sms", "logistic")
        return {name: lambda z, y, name=name: get_calibrator(name).fit(softmax(z), y) for name in names}


class ScikitLearn(Library):
    """scikit-learn."""

    distribution, package = "scikit-learn", "sklearn"
    statement = "from sklearn.calibration import CalibratedClassifierCV"

    def brier(self, probs: Scores, labels: Scores) -> float:
        from sklearn.metrics import brier_score_loss

        return float(brier_score_loss(labels, probs, labels=range(probs.shape[1])))

    def fitted(self, method: str, logits: Scores, labels: Scores) -> Any:
        from sklearn.base import BaseEstimator, ClassifierMixin
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.frozen import FrozenEstimator

        class GivenLogits(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
            def fit(self, logits: Any, labels: Any) -> Any:
                self.classes_ = np.arange(logits.shape[1])
                return self

            def predict(self, logits: Any) -> Any:
                return logits.argmax(1)

            def decision_function(self, logits: Any) -> Any:
                return logits

        frozen = FrozenEstimator(GivenLogits().fit(logits, labels))
        return CalibratedClassifierCV(frozen, method=method, ensemble=False).fit(logits, labels)

    def temperature(self, logits: Scores, labels: Scores) -> float:
        fitted = self.fitted("temperature", logits, labels)
        return 1 / float(fitted.calibrated_classifiers_[0].calibrators[0].beta_)

    def scalings(self) -> dict[str, Callable[..., Any]]:
        methods = ("sigmoid", "isotonic", "temperature")
        return {method: lambda z, y, method=method: self.fitted(method, z, y) for method in methods}

    def diagram(self, probs: Scores, labels: Scores) -> Any:
        from sklearn.calibration import CalibrationDisplay

        return CalibrationDisplay.from_predictions(labels == 0, probs[:, 0]).figure_
