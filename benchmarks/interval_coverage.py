"""Coverage of the 95 % intervals, and bias of the plain and the debiased ECE.

    OMP_NUM_THREADS=1 python benchmarks/interval_coverage.py [--trials 1000] [--examples 500 2000] [--scenario wavy]

Each trial draws predictions from a scenario whose true metrics are known, as sums over a fine grid of confidences, and
computes every interval. With 1,000 trials a coverage of 95 % is known to ± 1.4 points. A scenario takes a few minutes.
The classwise ECE has separate scenarios (--scenario classwise), with probabilities for all classes.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from singleshot.metrics import Examples, ScoredBatch, bootstrap, debiased_ece
from singleshot.metrics.binning import GRID, smooth_error
from singleshot.metrics.classwise import ClasswiseGroups
from singleshot.metrics.estimates import METRICS, Estimator

Array = NDArray[np.float64]
CLASSES, POINTS, BINS = 10, 2**20, 20

SCENARIOS: dict[str, Callable[[Array], Array]] = {
    # each maps a confidence to the true accuracy
    "calibrated": lambda confidence: confidence,
    "slightly overconfident": lambda confidence: confidence - 0.03 * (confidence - 0.1) / 0.9,
    "overconfident": lambda confidence: confidence - 0.1 * (confidence - 0.1) / 0.9,
    "constant gap": lambda confidence: confidence - 0.05,
    "wavy": lambda confidence: np.clip(confidence + 0.2 * np.sin(12 * confidence) * (1 - confidence), 0, 1),
}
CLASS_SCENARIOS = {
    # true probabilities: the softmax of logits divided by the first number, plus class shifts with the second as scale
    "calibrated": (1.0, 0.0),
    "slightly overconfident": (1.15, 0.0),
    "overconfident": (1.5, 0.0),
    "classes differ": (1.0, 0.3),
}


class Outcome(NamedTuple):
    """By metric: coverage and mean width of the intervals, bias and standard deviation of the estimates."""

    coverage: dict[str, float]
    width: dict[str, float]
    bias: dict[str, float]
    deviation: dict[str, float]


def draw(accuracy: Callable[[Array], Array], size: int, generator: np.random.Generator) -> Examples:
    """Draw predictions over ten classes; the other classes share the remaining probability equally."""
    confidence = confidence_at(generator.random(size))
    return examples_from(confidence, generator.random(size) < accuracy(confidence))


def confidence_at(quantile: Array) -> Array:
    """Return confidences between 0.1 and 1 whose density increases towards 1."""
    return np.asarray(0.1 + 0.9 * quantile ** (1 / 3))


def examples_from(confidence: Array, correct: NDArray[np.bool_]) -> Examples:
    rest = (1 - confidence) / (CLASSES - 1)
    label = np.where(correct, confidence, rest)
    squares = confidence**2 + (CLASSES - 1) * rest**2
    values = (confidence, correct, -np.log(label), squares + 1 - 2 * label)  # Σ (p − [y])² = Σ p² + 1 − 2 p(y)
    confidences, rights, nll, brier = (torch.from_numpy(np.ascontiguousarray(value)) for value in values)
    return Examples(confidences, rights, nll, brier)


class Truth:
    """The metrics of infinitely many examples, from a fine grid of confidences and their true accuracy."""

    def __init__(self, accuracy: Callable[[Array], Array]) -> None:
        confidence = confidence_at((np.arange(POINTS) + 0.5) / POINTS)[::-1]
        right = accuracy(confidence)
        both = [examples_from(confidence, np.full(POINTS, answer)) for answer in (True, False)]
        nll, brier = (
            float((right * getattr(both[0], name).numpy() + (1 - right) * getattr(both[1], name).numpy()).mean())
            for name in ("nll", "brier")
        )
        gap = confidence - right
        by_width, by_mass = (
            np.bincount(index, weights=gap, minlength=BINS) / POINTS
            for index in (np.ceil(confidence * BINS).astype(int) - 1, np.arange(POINTS) * BINS // POINTS)
        )
        share = np.bincount(np.ceil(confidence * BINS).astype(int) - 1, minlength=BINS) / POINTS
        filled = share > 0
        risk = np.cumsum(1 - right) / np.arange(1, POINTS + 1)
        ece = float(np.abs(by_width).sum())
        accuracy_of_all = float(right.mean())
        oracle = 1 - accuracy_of_all + accuracy_of_all * np.log(accuracy_of_all)  # ∫ max(0, c − a) / c dc
        self.values = {
            "accuracy": accuracy_of_all,
            "mean_confidence": float(confidence.mean()),
            "ece": ece,
            "debiased_ece": ece,
            "adaptive_ece": float(np.abs(by_mass).sum()),
            "mce": float(np.abs(by_width[filled] / share[filled]).max()),
            "rmsce": float(np.sqrt((by_width[filled] ** 2 / share[filled]).sum())),
            "overconfidence": float(np.maximum(by_width, 0).sum()),
            "underconfidence": float(np.maximum(-by_width, 0).sum()),
            "nll": nll,
            "brier": brier,
            "aurc": float(risk.mean()),
            "excess_aurc": float(risk.mean() - oracle),
        }
        cell = np.clip((confidence * GRID).astype(int), 0, GRID - 1)
        self.residual = np.bincount(cell, weights=gap, minlength=GRID).astype(np.float64)

    def of(self, examples: Examples) -> dict[str, float]:
        """Return the true metrics, with the smooth ECE at the bandwidth of these examples."""
        bandwidth = Estimator(examples, BINS).bandwidth
        return {**self.values, "smooth_ece": float(smooth_error(self.residual, POINTS, bandwidth))}


def simulate(scenario: str, *, trials: int, size: int, replicates: int, seed: int = 0) -> Outcome:
    """Compute the intervals of many data sets from this scenario."""
    truth, generator = Truth(SCENARIOS[scenario]), np.random.default_rng(seed)
    held, widths, errors = ({name: np.zeros(trials) for name in METRICS} for _ in range(3))
    for trial in range(trials):
        examples = draw(SCENARIOS[scenario], size, generator)
        true = truth.of(examples)
        for name, found in bootstrap(examples, replicates=replicates, seed=trial, bins=BINS).items():
            held[name][trial] = found.low - 1e-12 <= true[name] <= found.high + 1e-12
            widths[name][trial] = found.high - found.low
            errors[name][trial] = found.estimate - true[name]
    return Outcome(_means(held), _means(widths), _means(errors), _deviations(errors))


def _means(values: dict[str, Array]) -> dict[str, float]:
    return {name: float(found.mean()) for name, found in values.items()}


def _deviations(values: dict[str, Array]) -> dict[str, float]:
    return {name: float(found.std(ddof=1)) for name, found in values.items()}


def class_predictions(scenario: str, size: int, classes: int, generator: np.random.Generator) -> tuple[Array, Array]:
    """Return predicted and true probabilities (N, C)."""
    temperature, shift = CLASS_SCENARIOS[scenario]
    logits = 2 * generator.standard_normal((size, classes))
    shifts = shift * np.random.default_rng(7).standard_normal(classes)  # the same in every data set
    said, true = (np.exp(values) for values in (logits, logits / temperature + shifts))
    return said / said.sum(1, keepdims=True), true / true.sum(1, keepdims=True)


def true_classwise_ece(scenario: str, classes: int, generator: np.random.Generator) -> float:
    """Return the classwise ECE of a million probabilities per class, with true probabilities instead of labels."""
    gap = np.zeros((classes, BINS))
    for _ in range(20):
        said, true = class_predictions(scenario, 50_000, classes, generator)
        cell = np.clip(np.ceil(said * BINS).astype(int) - 1, 0, BINS - 1) + np.arange(classes) * BINS
        gap += np.bincount(cell.ravel(), weights=(said - true).ravel(), minlength=gap.size).reshape(gap.shape)
    return float(np.abs(gap).sum() / (20 * 50_000) / classes)


def simulate_classwise(
    scenario: str, *, trials: int, size: int, replicates: int, classes: int = CLASSES, seed: int = 0
) -> Outcome:
    """Like `simulate`, for the classwise ECE."""
    generator, name = np.random.default_rng(seed), "classwise_ece"
    truth = true_classwise_ece(scenario, classes, generator) if scenario != "calibrated" else 0.0
    held, widths, errors = ({name: np.zeros(trials)} for _ in range(3))
    for trial in range(trials):
        said, true = class_predictions(scenario, size, classes, generator)
        labels = np.argmax(true.cumsum(1) >= generator.random((size, 1)) * (1 - 1e-12), axis=1)
        groups = ClasswiseGroups(BINS)
        groups.add(ScoredBatch.of(probs=said, labels=labels))
        found = groups.interval(replicates, seed=trial)
        held[name][trial] = found.low - 1e-12 <= truth <= found.high + 1e-12
        widths[name][trial] = found.high - found.low
        errors[name][trial] = found.estimate - truth
    return Outcome(_means(held), _means(widths), _means(errors), _deviations(errors))


def print_outcome(title: str, found: Outcome) -> None:
    print(f"\n{title}")
    print(f"  {'metric':<16} {'coverage of the 95 % intervals':<30} mean width   bias of the estimate")
    for name in found.coverage:
        coverage, width, bias = (values[name] for values in (found.coverage, found.width, found.bias))
        print(f"  {name:<16} {coverage:<30.1%} {width:<10.4f}   {bias:+.5f}", flush=True)


def print_bias_by_size(scenario: str, trials: int) -> None:
    truth, generator = Truth(SCENARIOS[scenario]).values["ece"], np.random.default_rng(1)
    for size in (100, 300, 1000, 3000, 10000):
        drawn = [draw(SCENARIOS[scenario], size, generator) for _ in range(trials)]
        plain = [Estimator(examples, BINS).estimates(("ece",))["ece"] for examples in drawn]
        debiased = [debiased_ece(examples, BINS) for examples in drawn]
        print(f"  {size:>6}   {np.mean(plain) - truth:+.4f}   {np.mean(debiased) - truth:+.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--examples", type=int, nargs="+", default=[500, 1000, 2000])
    parser.add_argument("--replicates", type=int, default=400)
    parser.add_argument("--scenario", choices=[*SCENARIOS, "classwise"], help="one of them; all without this")
    parser.add_argument("--classes", type=int, default=CLASSES, help="of the classwise scenarios")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.scenario in (None, "classwise"):
        for scenario, size in product(CLASS_SCENARIOS, args.examples):
            options = {"trials": args.trials, "size": size, "replicates": args.replicates, "classes": args.classes}
            title = f"{scenario}, {args.classes} classes: {args.trials} data sets of {size}"
            print_outcome(title, simulate_classwise(scenario, **options))
    for scenario in [scenario for scenario in SCENARIOS if args.scenario in (None, scenario)]:
        for size in args.examples:
            found = simulate(scenario, trials=args.trials, size=size, replicates=args.replicates)
            print_outcome(f"{scenario}: {args.trials} data sets of {size}, {args.replicates} replicates", found)
        print("  bias of the ECE by number of examples: plain, debiased")
        print_bias_by_size(scenario, min(args.trials, 200))


if __name__ == "__main__":
    main()
