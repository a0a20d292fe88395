"""Time of 1,000 bootstrap replicates of all metrics on 1e5 examples, compared with a plain numpy loop, on one thread.

    OMP_NUM_THREADS=1 python benchmarks/bootstrap.py [--rounds 3]

The plain loop draws the examples of each replicate and computes accuracy, NLL, Brier score, ECE and AURC, five of our
fourteen metrics. It runs few replicates, and its time is scaled to the same number. Wall-clock time is longer than
processor time if other programs use the machine.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch

from singleshot.metrics import Examples, bootstrap

EXAMPLES, CLASSES, REPLICATES, PLAIN_REPLICATES = 100_000, 100, 1000, 25


def predictions() -> Examples:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(EXAMPLES, CLASSES, generator=generator).mul_(3)
    labels = torch.multinomial((0.8 * logits).softmax(1), 1, generator=generator).squeeze(1)
    return Examples.of(logits=logits, labels=labels)


def plain_bootstrap(examples: Examples, replicates: int) -> None:
    generator = np.random.default_rng(0)
    confidence, correct, nll, brier = (
        values.numpy() for values in (examples.confidence, examples.correct, examples.nll, examples.brier)
    )
    for _ in range(replicates):
        drawn = generator.integers(0, len(examples), len(examples))
        c, y = confidence[drawn], correct[drawn]
        y.mean(), nll[drawn].mean(), brier[drawn].mean()
        index = np.digitize(c, np.arange(1, 20) / 20, right=True)
        np.abs(np.bincount(index, weights=c - y, minlength=20)).sum()
        errors = ~y[np.argsort(-c)]
        (np.cumsum(errors) / np.arange(1, len(c) + 1)).mean()


def seconds(run: Callable[[], object]) -> tuple[float, float]:
    """Return the wall-clock time and the processor time."""
    clock, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - clock, time.process_time() - processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    examples = predictions()
    bootstrap(examples, replicates=10)  # exclude the imports
    ours, plain = [], []
    for _ in range(rounds):
        ours.append(seconds(lambda: bootstrap(examples, replicates=REPLICATES)))
        plain.append(seconds(lambda: plain_bootstrap(examples, PLAIN_REPLICATES)))
    scale = REPLICATES / PLAIN_REPLICATES
    print(f"{REPLICATES} replicates on {EXAMPLES} examples, median of {rounds}: wall-clock time, processor time")
    for name, times, factor in (
        ("singleshot, 14 metrics with intervals", ours, 1.0),
        ("plain numpy, 5 metrics", plain, scale),
    ):
        clock, processor = (factor * median(values) for values in zip(*times, strict=True))
        print(f"  {name:<40} {clock:8.2f} s {processor:8.2f} s")


if __name__ == "__main__":
    main()
