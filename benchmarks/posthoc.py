"""Accuracy and time of temperature fits, ours and those of other libraries, on one thread.

    make bench          or          OMP_NUM_THREADS=1 python benchmarks/posthoc.py [--rounds 3]

Logits are float32. The exact temperature is the root of the slope of the NLL on the same numbers in float64, by scipy's
bracketing root finder. Compared are the code of the well-known reference repository (torch's LBFGS with learning rate
0.01 and 50 iterations on the temperature itself, from 1.5, in float32); scikit-learn's
``CalibratedClassifierCV(method="temperature")`` around a classifier that returns the logits; and netcal's
TemperatureScaling on probabilities in float32 and float64 (``pip install 'singleshot[bench]'``). On the larger set
LBFGS takes minutes, so it is only timed there.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq
from timing import interleaved_medians, print_ratios
from torch import Tensor

import singleshot as ss

TEMPERATURES = (0.05, 0.2, 1.0, 2.5, 7.0, 20.0, 50.0)
SIZES = {"1e4x100": (10_000, 100), "5e4x1000": (50_000, 1000)}
OURS, LBFGS = "singleshot, TemperatureScaling.fit", "torch LBFGS, as in the reference repository"
SKLEARN, NETCAL, NETCAL_FLOAT64 = "scikit-learn, method='temperature'", "netcal, float32", "netcal, float64"


def predictions(examples: int, classes: int, temperature: float) -> tuple[Tensor, Tensor]:
    """Return logits z times the temperature, and labels drawn from softmax(z)."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(examples, classes, generator=generator).mul_(3)
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    return logits.mul_(temperature), labels


def exact_temperature(logits: Tensor, labels: Tensor, around: float) -> float:
    """Return the root of the slope of the mean NLL in 1/τ, in float64."""

    def slope(inverse: float) -> float:
        total = 0.0
        for part, label in zip(torch.split(logits, 5000), torch.split(labels, 5000), strict=True):
            z = part.double().numpy()
            weights = np.exp(inverse * (z - z.max(1, keepdims=True)))
            expected = (weights * z).sum(1) / weights.sum(1)
            total += float((expected - z[np.arange(len(z)), label.numpy()]).sum())
        return total / len(labels)

    return 1 / float(brentq(slope, 0.8 / around, 1.25 / around, xtol=1e-13 / around, rtol=1e-13))


def ours(logits: Tensor, labels: Tensor) -> float:
    return ss.TemperatureScaling.fit(logits, labels).temperature


def torch_lbfgs(logits: Tensor, labels: Tensor) -> float:
    temperature = torch.nn.Parameter(torch.full((1,), 1.5))
    optimizer = torch.optim.LBFGS([temperature], lr=0.01, max_iter=50)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(logits / temperature, labels)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return float(temperature)


def scikit_learn(logits: Tensor, labels: Tensor) -> float:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    class IdentityClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        def fit(self, logits: Any, labels: Any) -> Any:
            self.classes_ = np.arange(logits.shape[1])
            return self

        def predict(self, logits: Any) -> Any:
            return logits.argmax(1)

        def decision_function(self, logits: Any) -> Any:
            return logits

    scores = logits.numpy()
    fitted = FrozenEstimator(IdentityClassifier().fit(scores, None))
    calibrated = CalibratedClassifierCV(fitted, method="temperature", ensemble=False).fit(scores, labels.numpy())
    return 1 / float(calibrated.calibrated_classifiers_[0].calibrators[0].beta_)


def netcal(logits: Tensor, labels: Tensor, dtype: torch.dtype = torch.float32) -> float:
    from netcal.scaling import TemperatureScaling

    scaling = TemperatureScaling()
    scaling.fit(logits.to(dtype).softmax(1).numpy(), labels.numpy())
    return 1 / float(np.asarray(scaling.temperature).item())


CONTENDERS: dict[str, Callable[[Tensor, Tensor], float]] = {
    OURS: ours,
    LBFGS: torch_lbfgs,
    SKLEARN: scikit_learn,
    NETCAL: netcal,
    NETCAL_FLOAT64: partial(netcal, dtype=torch.float64),
}
LARGE = "5e4x1000"
EXACT_ON_LARGE = (OURS, SKLEARN)  # the others are compared on the smaller set
TIMED_ON_LARGE = (OURS, LBFGS, SKLEARN)


def print_errors(size: str, names: tuple[str, ...]) -> None:
    print(f"\n{size} float32 logits: fitted temperature, and its relative error")
    for temperature in TEMPERATURES:
        logits, labels = predictions(*SIZES[size], temperature)
        expected = exact_temperature(logits, labels, temperature)
        print(f"  true {temperature:g}, best on these examples {expected:.9g}")
        for name in names:
            found = CONTENDERS[name](logits, labels)
            print(f"    {name:<44} {found:14.9g}   {abs(found / expected - 1):8.1e}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of the other libraries
    for size, shape in SIZES.items():
        print_errors(size, EXACT_ON_LARGE if size == LARGE else tuple(CONTENDERS))
        logits, labels = predictions(*shape, 2.5)
        names = TIMED_ON_LARGE if size == LARGE else tuple(CONTENDERS)
        contenders = {name: partial(CONTENDERS[name], logits, labels) for name in names}
        rounds = 1 if size == LARGE else args.rounds
        medians = interleaved_medians(contenders, rounds)
        print_ratios(f"{size}, true 2.5, median of {rounds}, times ours", medians, OURS)


if __name__ == "__main__":
    main()
