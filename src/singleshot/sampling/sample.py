"""T stochastic predictions of one batch, at the least price that is right."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor, fx, nn

from singleshot.sampling.coupling import one_call_per_pass
from singleshot.sampling.folded import can_fold, draws_while_sharing, find_batch_dims, run_folded
from singleshot.sampling.graph import NoiseGraph, NotTraceableError, trace
from singleshot.sampling.grouped import run_passes
from singleshot.sampling.low_memory import run_replayed
from singleshot.sampling.noise import noise_on_for_sampling
from singleshot.sampling.stochastic import require_noise

STRATEGIES = ("auto", "shared", "repeat", "loop")
PLANS_KEPT = 16  # of one model: training, evaluation and a few more


@dataclass(frozen=True)
class Plan:
    """How a model's passes will be run."""

    strategy: str  # shared, repeat or loop
    graph: NoiseGraph | None  # for shared
    batch_dims: dict[fx.Node, int] | None  # for shared, where the noisy part runs as one batch of T·B rows
    obstacle: str | None  # what stopped a better strategy


def sample(
    model: nn.Module,
    x: Tensor,
    *,
    samples: int = 5,
    strategy: str = "auto",
    seed: int | None = None,
    memory: str = "normal",
) -> Tensor:
    """Logits (T, B, C) of T stochastic passes over one batch, differentiable.

    In training mode the passes are those of training: noise as the modes say, batch statistics of each pass. In
    evaluation mode they are Monte Carlo inference: the noise is switched on for the call, everything else (batch norm!)
    stays in evaluation mode, and afterwards the model is bit for bit what it was.

    Args:
        model: any classifier with noise layers, from images, tokens or whatever to logits (B, C).
        x: one batch, batch first.
        samples: T.
        strategy: ``shared`` computes once what the passes have in common, ``repeat`` runs one batch of T·B rows,
            ``loop`` runs T passes; ``auto`` takes the cheapest that works, and `explain` tells which and why. All draw
            from the same distribution.
        seed: the same seed gives the same samples again, and leaves torch's random state as it was.
        memory: ``low`` keeps the activations of one pass only, in exchange for running each pass forward twice.

    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    >>> sample(model, torch.randn(2, 4), samples=5).shape
    torch.Size([5, 2, 3])
    """
    _check(model, x, samples, strategy, memory)
    with _random_state(seed, x), noise_on_for_sampling(model):
        if memory == "low":
            require_noise(model, None)
            return _stacked(run_replayed(model, x, samples), x)
        plan = plan_for(model, x, strategy)
        if plan.graph is not None and plan.batch_dims is None:
            return _stacked(run_passes(plan.graph, model, x, samples), x)
        if plan.strategy == "loop":
            return _stacked([model(x) for _ in range(samples)], x)
        if plan.graph is not None and plan.batch_dims is not None:
            outputs: Tensor = run_folded(plan.graph, model, x, samples, plan.batch_dims)
        else:
            with one_call_per_pass(model, samples):
                outputs = model(x.repeat(samples, *[1] * (x.ndim - 1)))
        _check_output(outputs, samples * len(x), x)
        return outputs.reshape(samples, len(x), -1)


def plan_for(model: nn.Module, x: Tensor, strategy: str = "auto", *, warn: bool = True) -> Plan:
    """The plan for a model as it is now; made once for each combination of its modes and other plain attributes."""
    plans = _PLANS.setdefault(model, {})
    key = (strategy, x.ndim, x.dtype, x.device.type, tuple(_settings(module) for module in model.modules()))
    if key not in plans:
        if len(plans) >= PLANS_KEPT:
            del plans[next(iter(plans))]
        plans[key] = _make_plan(model, x, strategy)
    plan = plans[key]
    if warn and plan.obstacle is not None and model not in _WARNED:
        _WARNED.add(model)
        warnings.warn(
            f"passes share no work: {plan.obstacle}. sample() uses strategy={plan.strategy!r}, which costs T passes",
            stacklevel=3,
        )
    return plan


def _settings(module: nn.Module) -> tuple[Any, ...]:
    """Everything plain about a module: its modes and rates, and whatever else its forward may decide by."""
    plain = (bool, int, float, str, type(None))
    return type(module), *((name, value) for name, value in vars(module).items() if isinstance(value, plain))


_PLANS: WeakKeyDictionary[nn.Module, dict[Any, Plan]] = WeakKeyDictionary()
_WARNED: WeakSet[nn.Module] = WeakSet()


def _make_plan(model: nn.Module, x: Tensor, strategy: str) -> Plan:
    graph, obstacle = None, None
    try:
        graph = trace(model)
        if draws_while_sharing(graph, model, x):
            graph, obstacle = None, "its forward draws random numbers in a way that is not recognised"
    except NotTraceableError as error:
        obstacle = str(error)
    require_noise(model, graph)
    if strategy in ("repeat", "loop"):
        return Plan(strategy, None, None, None)
    if graph is not None:
        dims = find_batch_dims(graph, model, x) if can_fold(graph, model) else None
        return Plan("shared", graph, dims, None)
    if strategy == "shared":
        raise ValueError(f"strategy='shared' is not possible for this model: {obstacle}; use strategy='auto'")
    # Without a graph all T passes are run: one after the other on a CPU, for its cache; as one batch elsewhere.
    return Plan("loop" if x.device.type == "cpu" else "repeat", None, None, obstacle)


def _stacked(outputs: list[Any], x: Tensor) -> Tensor:
    for output in outputs:
        _check_output(output, len(x), x)
    return torch.stack(outputs)


def _check(model: nn.Module, x: Tensor, samples: int, strategy: str, memory: str) -> None:
    if not isinstance(x, Tensor) or x.ndim == 0 or not len(x):
        raise ValueError(f"x must be one tensor with at least one row, got {getattr(x, 'shape', type(x).__name__)}")
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
        raise ValueError(f"samples must be a whole number of at least 1, got {samples!r}")
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy={strategy!r} is unknown; choose one of {', '.join(STRATEGIES)}")
    if memory not in ("normal", "low"):
        raise ValueError(f"memory={memory!r} is unknown; choose normal or low")
    if memory == "low" and strategy not in ("auto", "loop"):
        raise ValueError(f"memory='low' replays whole passes, which is strategy='loop'; got strategy={strategy!r}")
    home = next((parameter.device for parameter in model.parameters()), x.device)
    if x.device != home:
        raise ValueError(f"x is on {x.device} and the model on {home}: x.to({str(home)!r}) brings them together")
    if isinstance(model, nn.parallel.DistributedDataParallel):
        raise ValueError(
            "sample() runs the model's layers past DistributedDataParallel; sample inside the wrapped module"
        )


def _check_output(output: Any, rows: int, x: Tensor) -> None:
    if isinstance(output, Tensor) and output.ndim == 2 and len(output) == rows:
        return
    found = (
        f"shape {tuple(output.shape)} for {rows} rows" if isinstance(output, Tensor) else f"a {type(output).__name__}"
    )
    raise ValueError(f"the model must map x with {len(x)} rows to logits of shape ({len(x)}, C); it returns {found}")


@contextmanager
def _random_state(seed: int | None, x: Tensor) -> Iterator[None]:
    """With a seed, torch's random state is as it was in the end; without, it is put back only after an error."""
    devices = [x.device] if x.device.type == "cuda" else []
    before = torch.get_rng_state(), [torch.cuda.get_rng_state(device) for device in devices]
    finished = False
    try:
        if seed is not None:
            torch.manual_seed(seed)
        yield
        finished = seed is None
    finally:
        if not finished:
            torch.set_rng_state(before[0])
            for device, state in zip(devices, before[1], strict=True):
                torch.cuda.set_rng_state(state, device)
