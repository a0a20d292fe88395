"""Time of MDCA against a loop over the classes, and memory of MMCE against its double sum, on one thread.

    OMP_NUM_THREADS=1 python benchmarks/losses.py [--rounds 5]

Both are forward and backward. The contenders are plain implementations of the formulas: MDCA class by class, and MMCE
with the matrix of all pairs. Times are of the processor: a step takes about a millisecond, less than a wait for a
busy one. Memory is the growth of the peak resident set, in a process of its own (Linux only).
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time

import torch
from timing import interleaved_medians, print_ratios
from torch import Tensor
from torch.nn.functional import cross_entropy

import singleshot as ss
from metrics import peak_mb

Loss = Callable[[Tensor, Tensor], Tensor]


def mdca_by_class(logits: Tensor, labels: Tensor) -> Tensor:
    probs, error = logits.softmax(1), torch.zeros(())
    for c in range(logits.shape[1]):
        error = error + (probs[:, c].mean() - (labels == c).float().mean()).abs()
    return cross_entropy(logits, labels) + error / logits.shape[1]


def mmce_of_pairs(logits: Tensor, labels: Tensor) -> Tensor:
    confidence, predicted = logits.softmax(1).max(1)
    gap = (predicted == labels).float() - confidence
    kernel = torch.exp(-(confidence[:, None] - confidence[None]).abs() / 0.4)
    return cross_entropy(logits, labels) + (gap[:, None] * gap[None] * kernel).mean().sqrt()


CONTENDERS: dict[str, Loss] = {"ours": ss.mmce_loss, "pairs": mmce_of_pairs}


def step(loss: Loss, logits: Tensor, labels: Tensor) -> Tensor:
    """Return the loss after a forward and a backward pass."""
    logits = logits.detach().requires_grad_()
    value = loss(logits, labels)
    value.backward()  # type: ignore[no-untyped-call]
    return value.detach()


def steps(loss: Loss, logits: Tensor, labels: Tensor) -> None:
    """Run ten steps, as a training does: a single one pays for the caches that the other contender has filled."""
    for _ in range(10):
        step(loss, logits, labels)


def batch(examples: int, classes: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(examples, classes, generator=generator) * 3
    return logits, torch.randint(0, classes, (examples,), generator=generator)


def print_growth(contender: str) -> None:
    """Print by how many MB a step at B = 4096, C = 100 raises the peak, after a small step has loaded everything."""
    loss = CONTENDERS[contender]
    step(loss, *batch(8, 100))
    given = batch(4096, 100)
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak to the current resident set
    before = peak_mb()
    step(loss, *given)
    print(peak_mb() - before)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory-of", choices=CONTENDERS)
    arguments = parser.parse_args()
    if arguments.memory_of:
        print_growth(arguments.memory_of)
        return
    for examples in (64, 128, 256):
        given = batch(examples, 1000)
        torch.testing.assert_close(step(ss.mdca_loss, *given), step(mdca_by_class, *given))
        jobs = {
            "ours, 10 steps": partial(steps, ss.mdca_loss, *given),
            "a loop over the classes, 10 steps": partial(steps, mdca_by_class, *given),
        }
        print_ratios(
            f"MDCA, B = {examples}, C = 1000",
            interleaved_medians(jobs, arguments.rounds, process_time),
            "ours, 10 steps",
        )
    given = batch(4096, 100)
    torch.testing.assert_close(step(ss.mmce_loss, *given), step(mmce_of_pairs, *given), rtol=1e-4, atol=1e-5)
    single = {name: partial(step, loss, *given) for name, loss in CONTENDERS.items()}
    print_ratios("MMCE, B = 4096, C = 100", interleaved_medians(single, arguments.rounds, process_time), "ours")
    for name in CONTENDERS:
        command = [sys.executable, __file__, "--memory-of", name]
        grown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        print(f"  {name:<44} {float(grown):9.1f} MB")


if __name__ == "__main__":
    main()
