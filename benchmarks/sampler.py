"""What T stochastic passes cost, over one: ours beside the loop over passes and the repeated input.

    make bench          or          python benchmarks/sampler.py [--rounds 7] [--batch 8] [--only vgg16]

Full-size networks of the paper, 100 classes, 32×32 images, one thread, interleaved medians. A training step is forward,
loss and backward. For the ResNets the reference is one stochastic-depth step; what a step costs there depends on its
coins, so besides the medians the means of many steps are compared.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
from collections.abc import Callable
from contextlib import nullcontext
from statistics import fmean, median
from typing import Any

import torch
from branch_runs import expected_branch_runs, relative_branch_runs
from live_memory import peak_bytes
from timing import interleaved_seconds
from torch import Tensor, nn

import singleshot as ss
from singleshot.models import StochasticDepthBlock

NETWORKS = ("vgg16", "resnet18", "resnet34", "wide_resnet16_8", "densenet40_12")
PASSES = 5
MONTE_CARLO = 50
COIN_ROUNDS = 60
MEMORY_BATCH = 32


def training_steps(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Callable[[], None]]:
    def step(logits: Callable[[], Tensor], loss: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], None]:
        def run() -> None:
            loss(logits(), y).backward()  # type: ignore[no-untyped-call]

        return run

    def sampled(**options: Any) -> Callable[[], Tensor]:
        return lambda: ss.sample(model, x, samples=PASSES, **options)

    def repeated() -> Tensor:
        logits: Tensor = model(x.repeat(PASSES, 1, 1, 1))  # batch norm mixes the passes
        return logits.reshape(PASSES, len(x), -1)

    return {
        "one pass, cross-entropy": step(lambda: model(x), ss.cross_entropy_loss),
        "ours": step(sampled(), ss.vwci_loss),
        "ours, memory='low'": step(sampled(memory="low"), ss.vwci_loss),
        "ours, gradient_passes=1": step(sampled(gradient_passes=1), ss.vwci_loss),
        "loop over passes": step(lambda: loop(model, x, PASSES), ss.vwci_loss),
        "repeated input": step(repeated, ss.vwci_loss),
    }


def loop(model: nn.Module, x: Tensor, passes: int) -> Tensor:
    with nullcontext() if model.training else ss.stochastic(model):
        return torch.stack([model(x) for _ in range(passes)])


def print_table(title: str, seconds: dict[str, list[float]], average: Callable[[list[float]], float]) -> None:
    print(f"\n{title}", flush=True)
    reference = average(next(iter(seconds.values())))
    for name, values in seconds.items():
        print(f"  {name:<32} {average(values) * 1e3:9.1f} ms   {average(values) / reference:6.2f} x", flush=True)


def compare_training(name: str, batch: int, rounds: int) -> None:
    torch.manual_seed(0)
    model = ss.create_model(name, num_classes=100).train()
    x, y = torch.randn(batch, 3, 32, 32), torch.randint(0, 100, (batch,))
    survivals = [block.survival for block in model.modules() if isinstance(block, StochasticDepthBlock)]
    steps = training_steps(model, x, y)
    seconds = interleaved_seconds(steps, rounds)
    print_table(f"{name}: a VWCI training step, T = {PASSES}, batch {batch}, median of {rounds}", seconds, median)
    if survivals:  # the coins make every step another amount of work: compare means, of many
        pair = {key: steps[key] for key in ("one pass, cross-entropy", "ours")}
        seconds = interleaved_seconds(pair, COIN_ROUNDS)
        print_table(f"{name}: the same, mean of {COIN_ROUNDS}", seconds, fmean)
        print(f"  counted: the tree runs {relative_branch_runs(survivals, PASSES):.2f} x the branches of one pass")
    if not survivals:
        compare_memory(name)


def compare_memory(name: str) -> None:
    """At a batch where activations, and not the gradients of the weights, are what a step holds."""
    model = ss.create_model(name, num_classes=100).train()
    x, y = torch.randn(MEMORY_BATCH, 3, 32, 32), torch.randint(0, 100, (MEMORY_BATCH,))
    steps = training_steps(model, x, y)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)  # there before, so not counted
    peaks = {key: peak_bytes(steps[key]) for key in ("one pass, cross-entropy", "ours", "ours, memory='low'")}
    one = peaks["one pass, cross-entropy"]
    print(
        f"  peak memory of a step at batch {MEMORY_BATCH}: "
        + ", ".join(f"{key} {value / one:.2f} x" for key, value in peaks.items())
    )


def compare_inference(name: str, batch: int, rounds: int) -> None:
    torch.manual_seed(0)
    model = ss.create_model(name, num_classes=100).eval()
    x = torch.randn(batch, 3, 32, 32)
    jobs: dict[str, Callable[[], object]] = {
        "one evaluation pass": lambda: model(x),
        "ours": lambda: ss.sample(model, x, samples=MONTE_CARLO),
        "loop over passes": lambda: loop(model, x, MONTE_CARLO),
    }
    with torch.no_grad():
        seconds = interleaved_seconds(jobs, rounds)
        peaks = {key: peak_bytes(run) for key, run in jobs.items()}
    print_table(f"{name}: Monte Carlo inference, T = {MONTE_CARLO}, batch {batch}, median of {rounds}", seconds, median)
    print(f"  peak memory: ours {peaks['ours'] / peaks['one evaluation pass']:.2f} x one pass")
    survivals = [block.survival for block in model.modules() if isinstance(block, StochasticDepthBlock)]
    if survivals:
        runs = expected_branch_runs(survivals, MONTE_CARLO)
        print(
            f"  counted: the tree runs {runs:.0f} branches, {runs / len(survivals):.1f} x those of an evaluation pass"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--only", choices=NETWORKS, help="one network instead of all")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in [args.only] if args.only else NETWORKS:
        compare_training(name, args.batch, args.rounds)
    for name in [args.only] if args.only else ("vgg16", "resnet34"):
        compare_inference(name, args.batch, min(args.rounds, 3))


if __name__ == "__main__":
    main()
