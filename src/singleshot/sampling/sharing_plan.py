"""How the passes of a model will be run: made once, and tried out before it is trusted."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor, nn

from singleshot.sampling.folded import BatchDims, draws_while_sharing, find_batch_dims
from singleshot.sampling.graph import NoiseGraph, trace
from singleshot.sampling.grouped import run_passes
from singleshot.sampling.state import frozen_buffers, random_state
from singleshot.sampling.stochastic_depth import StochasticDepthBlock
from singleshot.sampling.switching import graph_or_none, require_noise
from singleshot.sampling.tracing import NotTraceableError, hook_count, is_leaf

PLANS_KEPT = 16  # of one model: training, evaluation and a few more


@dataclass(frozen=True)
class Plan:
    """How a model's passes will be run."""

    strategy: str  # shared, repeat or loop
    graph: NoiseGraph | None  # for shared
    batch_dims: BatchDims | None  # for shared, where the noisy part runs as one batch of T·B rows
    obstacle: str | None  # what stopped a better strategy


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
        with torch.no_grad(), frozen_buffers(model), random_state(seed, x):
            of_model = model(x)
        with torch.no_grad(), frozen_buffers(model), random_state(seed, x):
            of_graph = run_passes(graph, model, x, 1)[0]
        if not (isinstance(of_model, Tensor) and isinstance(of_graph, Tensor)):
            return None  # no logits: that is said when they are asked for
        if of_model.dtype != of_graph.dtype or of_model.shape != of_graph.shape:
            return "its graph does not give what the model gives"
        if not torch.allclose(of_model, of_graph, rtol=1e-3, atol=1e-4, equal_nan=True):
            return "its graph does not give what the model gives"
    return None
