"""Why sampling a model costs what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils.flop_counter import FlopCounterMode

from singleshot.sampling.graph import NoiseGraph
from singleshot.sampling.noise import noise_layers, noise_on_for_sampling
from singleshot.sampling.sampler import check_arguments
from singleshot.sampling.sharing_plan import Plan, plan_for
from singleshot.sampling.state import frozen_buffers
from singleshot.sampling.stochastic_depth import StochasticDepthBlock
from singleshot.sampling.tracing import OneInput


@dataclass(frozen=True)
class Explanation:
    """What `sample` will do with a model, and what stands in the way of doing better."""

    strategy: str
    noise: tuple[str, ...]  # names of the noise layers
    starts_at: str | None  # the first place in the graph where passes part
    shared_parameters: float  # share of the parameters used before the noise
    shared_work: float  # share of a pass's multiplications done before the noise
    as_one_batch: bool  # whether what comes after the noise runs as one batch of T·B rows
    branch_runs: float | None  # with stochastic depth: expected branches run by T passes, over those of one pass
    obstacle: str | None

    def __str__(self) -> str:
        """A few lines to read."""
        lines = [f"strategy: {self.strategy}" + (", the noisy part as one batch" if self.as_one_batch else "")]
        lines.append(f"noise layers: {', '.join(self.noise) or 'none; noise in the forward code'}")
        if self.starts_at is not None:
            lines.append(f"the passes part at: {self.starts_at}")
            lines.append(
                f"before that: {self.shared_parameters:.0%} of the parameters, {self.shared_work:.0%} of the work"
            )
        if self.branch_runs is not None:
            lines.append(f"stochastic depth: all passes together run {self.branch_runs:.2f} times the branches of one")
        if self.obstacle is not None:
            lines.append(f"what stopped a better strategy: {self.obstacle}")
        return "\n".join(lines)


def explain(model: nn.Module, x: Tensor, *, samples: int = 5) -> Explanation:
    """How `sample` would run this model on this batch, in the mode the model is in now.

    >>> model = nn.Sequential(nn.Linear(4, 60), nn.ReLU(), nn.Dropout(0.5), nn.Linear(60, 4))
    >>> print(explain(model, torch.randn(2, 4)))
    strategy: shared, the noisy part as one batch
    noise layers: 2
    the passes part at: 2
    before that: 55% of the parameters, 50% of the work
    """
    check_arguments(model, x, samples)
    with noise_on_for_sampling(model), torch.random.fork_rng(devices=[]):
        plan = plan_for(model, x, warn=False)
        parameters, work = (0.0, 0.0) if plan.graph is None else _shares(plan.graph, model, x)
    survivals = [block.survival for block in model.modules() if isinstance(block, StochasticDepthBlock)]
    return Explanation(
        strategy=plan.strategy,
        noise=tuple(noise_layers(model)),
        starts_at=_first_draw(plan),
        shared_parameters=parameters,
        shared_work=work,
        as_one_batch=plan.batch_dims is not None,
        branch_runs=relative_branch_runs(survivals, samples) if survivals and plan.graph is not None else None,
        obstacle=plan.obstacle,
    )


def _first_draw(plan: Plan) -> str | None:
    if plan.graph is None:
        return None
    first = next(node for node in plan.graph.graph.nodes if node in plan.graph.draws)
    return str(first.target).removeprefix("model.") if first.op == "call_module" else first.name


def _shares(plan: NoiseGraph, model: nn.Module, x: Tensor) -> tuple[float, float]:
    """The shared part's share of the parameters, and of the multiplications of one pass."""
    runner = _CountingInterpreter(OneInput(model), plan)
    with frozen_buffers(model):
        runner.run(x)
    counted = sum(parameter.numel() for parameter in model.parameters())
    used_later = {id(parameter) for node in plan.noisy for parameter in _parameters(node, runner)}
    shared = sum(parameter.numel() for parameter in model.parameters() if id(parameter) not in used_later)
    total = runner.shared_flops + runner.noisy_flops
    return shared / max(counted, 1), runner.shared_flops / max(total, 1)


def _parameters(node: fx.Node, runner: fx.Interpreter) -> list[nn.Parameter]:
    """The parameters a node works with: its module's, or those it is called with."""
    if node.op == "call_module":
        return list(runner.fetch_attr(str(node.target)).parameters())
    given = [runner.fetch_attr(str(parent.target)) for parent in node.all_input_nodes if parent.op == "get_attr"]
    return [value for value in given if isinstance(value, nn.Parameter)]


class _CountingInterpreter(fx.Interpreter):
    """Runs one pass and counts the multiplications before and behind the noise."""

    def __init__(self, model: nn.Module, plan: NoiseGraph) -> None:
        super().__init__(model, graph=plan.graph)
        self.plan = plan
        self.shared_flops = 0
        self.noisy_flops = 0

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A block that may be dropped counts as kept."""
        module = self.fetch_attr(target)
        return module.kept(*args) if isinstance(module, StochasticDepthBlock) else module(*args, **kwargs)

    def run_node(self, n: fx.Node) -> Any:
        with FlopCounterMode(display=False) as counter:
            value = super().run_node(n)
        if n in self.plan.noisy:
            self.noisy_flops += counter.get_total_flops()
        else:
            self.shared_flops += counter.get_total_flops()
        return value


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
