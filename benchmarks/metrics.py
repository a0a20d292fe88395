"""Time and memory of all our metrics and of the ECE of other libraries, in the same run on one thread.

    make bench          or          OMP_NUM_THREADS=1 python benchmarks/metrics.py [--rounds 5]

torchmetrics and netcal are installed by ``pip install 'singleshot[bench]'``. netcal takes probabilities only: its time
includes the softmax. Peak memory is the growth of the resident set; each job runs in its own
process (Linux only).
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from timing import interleaved_medians, print_ratios
from torch import Tensor

import singleshot as ss

SIZES = {"1e6x100": (1_000_000, 100), "1e5x1000": (100_000, 1000), "1e5x100": (100_000, 100)}
OURS, OURS_CLASSWISE = "singleshot, all metrics and bins", "singleshot, all and classwise ECE"
TORCHMETRICS, NETCAL = "torchmetrics, ECE alone", "netcal, ECE alone"


def predictions(examples: int, classes: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(examples, classes, generator=generator).mul_(3)
    return logits, torch.randint(0, classes, (examples,), generator=generator)


def ours(logits: Tensor, labels: Tensor, classwise: bool = False) -> float:
    calibration = ss.Calibration(bins=20, classwise=classwise)
    calibration.update(logits=logits, labels=labels)
    return calibration.compute().ece


def torchmetrics_ece(logits: Tensor, labels: Tensor) -> float:
    from torchmetrics.functional.classification import multiclass_calibration_error

    return float(multiclass_calibration_error(logits, labels, num_classes=logits.shape[1], n_bins=20))


def netcal_ece(logits: Tensor, labels: Tensor) -> float:
    from netcal.metrics import ECE

    return float(ECE(bins=20).measure(logits.softmax(1).numpy(), labels.numpy()))


JOBS: dict[str, Callable[[Tensor, Tensor], float]] = {
    OURS: ours,
    OURS_CLASSWISE: lambda logits, labels: ours(logits, labels, classwise=True),
    TORCHMETRICS: torchmetrics_ece,
    NETCAL: netcal_ece,
}


def peak_growth_mb(job: str, size: str) -> float:
    """Peak memory above the input, measured in a fresh process."""
    script = [sys.executable, __file__, "--memory-of", job, "--size", size]
    return float(subprocess.run(script, capture_output=True, text=True, check=True).stdout)


def print_own_peak_growth(job: str, size: str) -> None:
    JOBS[job](*predictions(1000, 10))  # exclude imports and first-use allocations
    logits, labels = predictions(*SIZES[size])
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak to the current resident set
    before = peak_mb()
    JOBS[job](logits, labels)
    print(peak_mb() - before)


def peak_mb() -> float:
    """Return the peak resident set of this process; getrusage would include that of its parent."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory-of", choices=list(JOBS), help=argparse.SUPPRESS)
    parser.add_argument("--size", choices=list(SIZES), help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # warnings of the other libraries
    if args.memory_of:
        print_own_peak_growth(args.memory_of, args.size)
        return
    for size, shape in SIZES.items():
        logits, labels = predictions(*shape)
        contenders = {name: partial(job, logits, labels) for name, job in JOBS.items()}
        medians = interleaved_medians(contenders, args.rounds)
        print_ratios(f"{size} float32 logits, median of {args.rounds}, times torchmetrics", medians, TORCHMETRICS)
    print("\npeak memory above the input")
    for size in SIZES:
        for job in JOBS:
            print(f"  {size:<9} {job:<44} {peak_growth_mb(job, size):8.1f} MB")


if __name__ == "__main__":
    main()
