"""T stochastic predictions of one batch, at the least price that is right."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from singleshot.common.checks import check_choice, check_size
from singleshot.sampling.coupling import one_call_per_pass
from singleshot.sampling.folded import run_folded
from singleshot.sampling.grouped import run_passes
from singleshot.sampling.low_memory import run_replayed
from singleshot.sampling.noise import noise_layers, noise_on_for_sampling
from singleshot.sampling.sharing_plan import plan_for
from singleshot.sampling.state import random_state
from singleshot.sampling.switching import graph_or_none, require_noise

STRATEGIES = ("auto", "shared", "repeat", "loop")


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
    with random_state(seed, x), noise_on_for_sampling(model):
        if memory == "low":
            require_noise(model, graph_or_none(model))
            return _differing(_stacked(run_replayed(model, x, samples), x), model)
        plan = plan_for(model, x, strategy)
        if plan.graph is not None and plan.batch_dims is None:
            return _stacked(run_passes(plan.graph, model, x, samples), x)
        if plan.strategy == "loop":
            return _differing(_stacked([model(x) for _ in range(samples)], x), model)
        if plan.graph is not None and plan.batch_dims is not None:
            return _unfolded(run_folded(plan.graph, model, x, samples, plan.batch_dims), samples, x)
        with one_call_per_pass(model, samples):
            outputs = model(x.repeat(samples, *[1] * (x.ndim - 1)))
        return _differing(_unfolded(outputs, samples, x), model)


def _stacked(outputs: list[Any], x: Tensor) -> Tensor:
    for output in outputs:
        _check_output(output, len(x), x)
    return torch.stack(outputs)


def _unfolded(output: Any, samples: int, x: Tensor) -> Tensor:
    _check_output(output, samples * len(x), x)
    logits: Tensor = output.reshape(samples, len(x), -1)
    return logits


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
    check_size("samples", samples, least=1)
    check_choice("strategy", strategy, STRATEGIES)
    check_choice("memory", memory, ("normal", "low"))
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
