"""Why sampling a model costs what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from singleshot.sampling.noise import calling_module, noise_layers
from singleshot.sampling.sampler import check_arguments, device_of, noise_for_sampling, shared_passes
from singleshot.sampling.state import frozen_buffers, random_state, sampled_by_this_thread


@dataclass(frozen=True)
class Explanation:
    """What `sample` shared in one run of T passes."""

    noise: tuple[str, ...]  # names of the noise layers
    starts_at: str | None  # the module, or the function in it, that first drew random numbers
    samples: int
    flops: tuple[int, ...]  # multiplications and additions done in each pass; the first does all of its own

    @property
    def relative_work(self) -> float:
        """The work of all passes over that of the first."""
        return sum(self.flops) / max(self.flops[0], 1)

    @property
    def shared_work(self) -> float:
        """The share of a pass that the others need not do again, on average."""
        again = sum(self.flops[1:]) / max(len(self.flops) - 1, 1)
        return 1 - again / max(self.flops[0], 1)

    def __str__(self) -> str:
        return "\n".join(
            [
                f"noise layers: {', '.join(self.noise) or 'none; noise in the code of the model'}",
                f"noise starts at: {self.starts_at or 'unknown: no torch call drew random numbers'}",
                f"shared: {self.shared_work:.0%} of a pass; {self.samples} passes cost {self.relative_work:.2f} times one",
            ]
        )


def explain(model: nn.Module, *args: Any, samples: int = 5, **kwargs: Any) -> Explanation:
    """Run T passes of this model on this batch, in its current mode, and report what they shared.

    The model, its buffers and torch's random state are left as they were.

    >>> model = nn.Sequential(nn.Linear(4, 60), nn.ReLU(), nn.Dropout(0.5), nn.Linear(60, 4))
    >>> print(explain(model, torch.randn(2, 4)))
    noise layers: 2
    noise starts at: 2
    shared: 50% of a pass; 5 passes cost 3.00 times one
    """
    check_arguments(model, samples)
    names = {module: name for name, module in model.named_modules()}
    first: list[str] = []

    def note(function: Any) -> None:
        if not first:
            module = calling_module()
            name = names.get(module, "") if module is not None else ""
            is_layer = module is not None and name in layers
            first.append(name if is_layer else f"{getattr(function, '__name__', function)} in {name or type(model).__name__}")

    layers = noise_layers(model)
    device = device_of(model, (args, kwargs))
    with sampled_by_this_thread(model), random_state(0, None, device), frozen_buffers(model), noise_for_sampling(model):
        flops = tuple(_flops(shared_passes(model, args, kwargs, samples, on_noise=note)))
    return Explanation(tuple(layers), first[0] if first else None, samples, flops)


def _flops(passes: Iterator[Any]) -> Iterator[int]:
    while True:
        with FlopCounterMode(display=False) as counter:
            if next(passes, passes) is passes:
                return
        yield counter.get_total_flops()


def expected_branch_runs(survivals: Sequence[float], samples: int) -> float:
    """How many branches T passes run in expectation, if passes whose coins agree so far are computed once.

    Block l is run once for every distinct beginning c = (c_1 … c_l) among the T passes that ends in a kept coin. A
    beginning of probability P(c) is among them with probability 1 − (1 − P(c))^T = Σ_k (−1)^(k+1) C(T, k) P(c)^k, and
    summed over all beginnings each P^k factorises: Σ_c P(c)^k = p_l^k Π_{j<l} (p_j^k + (1 − p_j)^k). The alternating
    sum would lose all its digits in floating point, so it is done in fractions.

    >>> round(expected_branch_runs([0.5], samples=2), 12)  # kept by at least one of two passes
    0.75
    """
    exact = [Fraction(survival) for survival in survivals]
    total = Fraction(0)
    for k in range(1, samples + 1):
        beginnings = Fraction(1)
        runs = Fraction(0)
        for survival in exact:
            runs += survival**k * beginnings
            beginnings *= survival**k + (1 - survival) ** k
        total += (-1) ** (k + 1) * comb(samples, k) * runs
    return float(total)


def relative_branch_runs(survivals: Sequence[float], samples: int) -> float:
    """The same over the branches of one stochastic pass, Σ_l p_l."""
    return expected_branch_runs(survivals, samples) / sum(survivals)
