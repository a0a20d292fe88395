"""The costs in the README, ours beside the alternatives, from one run on one thread.

    make bench          or          OMP_NUM_THREADS=1 python benchmarks/costs.py [--output results/costs.json]

The other benchmarks have more networks and sizes; this one writes what it measures to a file, and `make docs` puts that
into the README. A stochastic-depth step costs what its coins cost, so its times are means; the others are medians.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import json
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
from sampler import training_steps
from timing import interleaved_seconds

import metrics
import posthoc
import singleshot as ss
from singleshot.common.environment import describe_environment
from singleshot.common.files import write_text

STEPS = {
    "one": "one pass, cross-entropy",
    "ours": "ours",
    "one_gradient": "ours, gradient_passes=1",
    "loop": "loop over passes",
}
ECE_SIZE = "1e6x100"


def step_costs(network: str, rounds: int, average: Callable[[list[float]], float]) -> dict[str, float]:
    """Return the time of a VWCI step with T = 5 relative to that of a plain step, at batch 8."""
    torch.manual_seed(0)
    model = ss.create_model(network, num_classes=100).train()
    steps = training_steps(model, torch.randn(8, 3, 32, 32), torch.randint(0, 100, (8,)))
    seconds = interleaved_seconds({name: steps[title] for name, title in STEPS.items()}, rounds)
    one = average(seconds.pop("one"))
    return {name: average(values) / one for name, values in seconds.items()}


def ece_costs(rounds: int) -> dict[str, dict[str, float]]:
    """Return seconds and megabytes of all our metrics, and of the ECE alone of other libraries."""
    jobs = {"ours": metrics.OURS, "torchmetrics": metrics.TORCHMETRICS, "netcal": metrics.NETCAL}
    inputs = metrics.predictions(*metrics.SIZES[ECE_SIZE])
    seconds = interleaved_seconds({name: partial(metrics.JOBS[job], *inputs) for name, job in jobs.items()}, rounds)
    return {
        name: {"seconds": median(values), "megabytes": metrics.peak_growth_mb(jobs[name], ECE_SIZE)}
        for name, values in seconds.items()
    }


def temperature_costs(rounds: int) -> dict[str, dict[str, float]]:
    """Return the seconds of a temperature fit to 10,000 × 100 logits, and the error of the temperature."""
    logits, labels = posthoc.predictions(*posthoc.SIZES["1e4x100"], temperature=2.5)
    exact = posthoc.exact_temperature(logits, labels, around=2.5)
    fits = {"ours": posthoc.ours, "sklearn": posthoc.scikit_learn, "lbfgs": posthoc.torch_lbfgs}
    seconds = interleaved_seconds({name: partial(fit, logits, labels) for name, fit in fits.items()}, rounds)
    return {
        name: {"seconds": median(values), "error": abs(fits[name](logits, labels) / exact - 1)}
        for name, values in seconds.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("results/costs.json"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # warnings of the other libraries
    costs: dict[str, Any] = {
        "environment": describe_environment(),
        "vgg16": step_costs("vgg16", rounds=7, average=median),
        "resnet18": step_costs("resnet18", rounds=30, average=fmean),
        "ece": ece_costs(rounds=5),
        "temperature": temperature_costs(rounds=3),
    }
    print(json.dumps(costs, indent=1))
    write_text(args.output, json.dumps(costs, indent=1) + "\n")


if __name__ == "__main__":
    main()
