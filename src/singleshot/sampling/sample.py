"""T stochastic predictions of one batch, at the least price that is right."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor, nn

from singleshot.models.stochastic_depth import StochasticDepthBlock
from singleshot.sampling.coupling import frozen_buffers, one_call_per_pass
from singleshot.sampling.folded import BatchDims, draws_while_sharing, find_batch_dims, run_folded
from singleshot.sampling.graph import NoiseGraph, trace
from singleshot.sampling.grouped import run_passes
from singleshot.sampling.low_memory import run_replayed
from singleshot.sampling.noise import noise_layers, noise_on_for_sampling
from singleshot.sampling.stochastic import graph_or_none, require_noise
from singleshot.sampling.tracing import NotTraceableError, hook_count, is_leaf

STRATEGIES = ("auto", "shared", "repeat", "loop")
PLANS_KEPT = 16  # of one model: training, evaluation and a few more


@dataclass(frozen=True)
class Plan:
    """How a model's passes will be run."""

    strategy: str  # shared, repeat or loop
    graph: NoiseGraph | None  # for shared
    batch_dims: BatchDims | None  # for shared, where the noisy part runs as one batch of T·B rows
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
    stays in evaluation mode, and afterwards the model is bit for bit what it was. In training a batch norm that all
    passes share records its batch once, where a loop would record it T times. A model is to be sampled by one thread
    at a time.

    Args:
        model: any classifier with noise layers, from images, tokens or whatever to logits (B, C).
        x: one batch, batch first.
        samples: T.
        strategy: ``shared`` computes once what the passes have in common, ``repeat`` runs one batch of T·B rows,
            ``loop`` runs T passes; ``auto`` takes the cheapest that works, and `explain` tells which and why. All draw
            from the same distribution. ``repeat`` takes rows, noise and layers to be independent of each other.
        seed: the same seed gives the same samples again, and leaves torch's random state as it was.
        memory: ``low`` keeps the activations of one pass only, in exchange for running each pass forward twice.

    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    >>> sample(model, torch.randn(2, 4), samples=5).shape
    torch.Size([5, 2, 3])
    """
    check_arguments(model, x, samples, seed=seed, strategy=strategy, memory=memory)
    with _random_state(seed, x), noise_on_for_sampling(model):
        if memory == "low":
            require_noise(model, graph_or_none(model))
            return _differing(_stacked(run_replayed(model, x, samples), x), model)
        plan = plan_for(model, x, strategy)
        if plan.graph is not None and plan.batch_dims is None:
            return _stacked(run_passes(plan.graph, model, x, samples), x)
        if plan.strategy == "loop":
            return _differing(_stacked([model(x) for _ in range(samples)], x), model)
        if plan.graph is not None and plan.batch_dims is not None:
            outputs: Tensor = run_folded(plan.graph, model, x, samples, plan.batch_dims)
        else:
            with one_call_per_pass(model, samples):
                outputs = model(x.repeat(samples, *[1] * (x.ndim - 1)))
        _check_output(outputs, samples * len(x), x)
        return _differing(outputs.reshape(samples, len(x), -1), model)


def plan_for(model: nn.Module, x: Tensor, strategy: str = "auto", *, warn: bool = True) -> Plan:
    """The plan for a model as it is now; made once for each combination of its modes and other plain attributes."""
    plans = _PLANS.setdefault(model, {})
    key = (strategy, x.ndim, x.dtype, x.device.type, _settings(model))
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


def _settings(model: nn.Module, inside_leaf: bool = False) -> tuple[Any, ...]:
    """Everything plain about a model: modes and rates, hooks, and whatever else its forward may decide by."""
    inside_leaf = inside_leaf or is_leaf(model)
    called_as_it_is = inside_leaf and not isinstance(model, StochasticDepthBlock)
    plain = [(name, _plain(value)) for name, value in vars(model).items() if not name.startswith("_")]
    # A graph calls a leaf as it is; of the modules around it, what it does was settled when they were traced.
    traced = () if called_as_it_is else (id(vars(model).get("forward")), hook_count(model))
    below = tuple(_settings(child, inside_leaf) for child in model.children())
    return type(model), traced, tuple(pair for pair in plain if pair[1] is not None), below


def _plain(value: Any) -> Any:
    """A value that says what it is: a number, a text, or a small collection of those."""
    if isinstance(value, (bool, int, float, str)):
        return value
    if type(value) in (list, tuple, set, dict) and len(value) < 100:
        parts = [*value, *value.values()] if type(value) is dict else list(value)
        return repr(value) if all(isinstance(part, (bool, int, float, str)) for part in parts) else None
    return None


_PLANS: WeakKeyDictionary[nn.Module, dict[Any, Plan]] = WeakKeyDictionary()
_WARNED: WeakSet[nn.Module] = WeakSet()


def _make_plan(model: nn.Module, x: Tensor, strategy: str) -> Plan:
    if strategy in ("repeat", "loop"):
        require_noise(model, graph_or_none(model))
        return Plan(strategy, None, None, None)
    graph, obstacle = None, None
    try:
        graph = trace(model)
        obstacle = _difference(graph, model, x)
    except NotTraceableError as error:
        obstacle = str(error)
    require_noise(model, graph)
    if graph is not None and obstacle is None:
        return Plan("shared", graph, find_batch_dims(graph, model, x), None)
    if strategy == "shared":
        raise ValueError(f"strategy='shared' is not possible for this model: {obstacle}; use strategy='auto'")
    return Plan("loop", None, None, obstacle)


def _difference(graph: NoiseGraph, model: nn.Module, x: Tensor) -> str | None:
    """What the graph does otherwise than the model, seen in two single passes from the same random state."""
    if draws_while_sharing(graph, model, x):
        return "its forward draws random numbers in a way that is not recognised"
    for seed in range(2):
        with torch.no_grad(), frozen_buffers(model), _random_state(seed, x):
            of_model = model(x)
        with torch.no_grad(), frozen_buffers(model), _random_state(seed, x):
            of_graph = run_passes(graph, model, x, 1)[0]
        if not (isinstance(of_model, Tensor) and isinstance(of_graph, Tensor)):
            return None  # no logits: that is said when they are asked for
        if of_model.dtype != of_graph.dtype or of_model.shape != of_graph.shape:
            return "its graph does not give what the model gives"
        if not torch.allclose(of_model, of_graph, rtol=1e-3, atol=1e-4, equal_nan=True):
            return "its graph does not give what the model gives"
    return None


def _stacked(outputs: list[Any], x: Tensor) -> Tensor:
    for output in outputs:
        _check_output(output, len(x), x)
    return torch.stack(outputs)


def _differing(logits: Tensor, model: nn.Module) -> Tensor:
    """The logits, unless all passes are the same although no layer of the model is known to make noise."""
    if len(logits) > 1 and not noise_layers(model) and bool((logits == logits[0]).all()):
        raise ValueError(f"{type(model).__name__} has no noise that could be found: all {len(logits)} passes are equal")
    return logits


def check_arguments(
    model: nn.Module,
    x: Tensor,
    samples: int,
    *,
    seed: int | None = None,
    strategy: str = "auto",
    memory: str = "normal",
) -> None:
    """Refuse what cannot be sampled, before any work."""
    if not isinstance(model, nn.Module):
        raise ValueError(f"model must be an nn.Module, got {type(model).__name__}")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= seed < 2**63):
        raise ValueError(f"seed must be a whole number in [0, 2**63), got {seed!r}")
    if not isinstance(x, Tensor) or x.ndim == 0 or not len(x):
        found = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(f"x must be one tensor with at least one row, got {found}; wrap a model of several inputs")
    if isinstance(samples, bool) or not isinstance(samples, Integral) or samples < 1:
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
