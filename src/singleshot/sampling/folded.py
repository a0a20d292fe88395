"""Run T passes as one batch of T·B rows from the point on where the noise begins.

This is the fast way for noise in the head of a network: one large matrix product in place of T small ones. It needs
rows that do not depend on each other behind the noise. That is not assumed but tried out, once for each plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn

from singleshot.sampling.coupling import couples_rows
from singleshot.sampling.graph import NoiseGraph, returned_node
from singleshot.sampling.noise import FUNCTIONAL_NOISE, noise_off
from singleshot.sampling.state import frozen_buffers
from singleshot.sampling.tracing import OneInput

BatchDims = dict[fx.Node, int]
"""For each value computed before the noise that grows with the batch: the dimension in which it does."""

PROBES = (2, 3)  # batch sizes of the two runs that show which dimension that is


def run_folded(plan: NoiseGraph, model: nn.Module, x: Tensor, passes: int, batch_dims: BatchDims) -> Any:
    """The model's output for the T·B rows, pass after pass."""

    def repeated(value: Tensor, dim: int) -> Tensor:
        return value.repeat([passes if d == dim else 1 for d in range(value.ndim)])

    shared = _Shared(plan, model, x)
    return _behind_the_noise(plan, shared, batch_dims, repeated)


def find_batch_dims(plan: NoiseGraph, model: nn.Module, x: Tensor) -> BatchDims | None:
    """The batch dimensions, if the noisy part of the model can run as one batch; None where it cannot."""
    root = OneInput(model)
    if plan.reorders or not all(_noise_is_by_row(node, root) for node in plan.draws):
        return None
    behind = [root.get_submodule(str(node.target)) for node in plan.noisy if node.op == "call_module"]
    if any(couples_rows(part) for module in behind for part in module.modules()):
        return None
    try:
        with torch.no_grad(), frozen_buffers(model):
            found = _growing_dims(plan, model, x)
            return found if found is not None and _rows_stay_apart(plan, model, x, found) else None
    except (RuntimeError, ValueError, IndexError, TypeError, AssertionError):
        return None  # a model that does not take other batch sizes, or not this way


def draws_while_sharing(plan: NoiseGraph, model: nn.Module, x: Tensor) -> bool:
    """Whether the part that was taken for free of noise draws random numbers all the same."""
    devices = [x.device] if x.device.type == "cuda" else []

    def state() -> list[Tensor]:
        return [torch.get_rng_state(), *(torch.cuda.get_rng_state(device) for device in devices)]

    with torch.no_grad(), frozen_buffers(model), torch.random.fork_rng(devices=devices):
        before = state()
        _Shared(plan, model, x)
        return not all(torch.equal(one, other) for one, other in zip(before, state(), strict=True))


def _noise_is_by_row(node: fx.Node, root: nn.Module) -> bool:
    """Whether a draw is a layer's, each row's own: a mask for weights, or one for all rows, is drawn once a pass."""
    if not any(parent.op != "get_attr" for parent in node.all_input_nodes):
        return False
    if node.op == "call_module":
        module = root.get_submodule(str(node.target))
        return type(module).__module__.startswith("torch.nn") or type(module).__name__ in (
            "DropPath",
            "StochasticDepth",
        )
    return node.target in FUNCTIONAL_NOISE or node.target is nn.functional.scaled_dot_product_attention


def _growing_dims(plan: NoiseGraph, model: nn.Module, x: Tensor) -> BatchDims | None:
    small, large = (_Shared(plan, model, x[:1].expand(rows, *x.shape[1:]).contiguous()) for rows in PROBES)
    found: BatchDims = {}
    for node, value in small.values.items():
        if not isinstance(value, Tensor):
            continue
        sizes = list(zip(value.shape, large.values[node].shape, strict=True))
        growing = [dim for dim, (before, after) in enumerate(sizes) if before != after]
        if len(growing) > 1 or any(sizes[dim] != PROBES for dim in growing):
            return None  # such as rows that stand for two halves of an example: their order would be lost
        if growing:
            found[node] = growing[0]
    return found


def _rows_stay_apart(plan: NoiseGraph, model: nn.Module, x: Tensor, batch_dims: BatchDims) -> bool:
    """Try it, with the noise off and passes that differ by a factor: as one batch, and one after the other."""
    factors = (1.0, 0.7)
    shared = _Shared(plan, model, x)

    def scaled(value: Tensor, factor: float) -> Tensor:
        return value * factor if value.is_floating_point() else value

    def together(value: Tensor, dim: int) -> Tensor:
        return torch.cat([scaled(value, factor) for factor in factors], dim)

    def alone(factor: float) -> Any:
        return _behind_the_noise(plan, shared, batch_dims, lambda value, _: scaled(value, factor), quiet=True)

    with noise_off(model):
        one_batch = _behind_the_noise(plan, shared, batch_dims, together, quiet=True)
        one_by_one = torch.cat([alone(factor) for factor in factors])
    return torch.allclose(one_batch, one_by_one, rtol=1e-3, atol=1e-4)


def _behind_the_noise(
    plan: NoiseGraph,
    shared: _Shared,
    batch_dims: BatchDims,
    fold: Callable[[Tensor, int], Tensor],
    *,
    quiet: bool = False,
) -> Any:
    """The output of the noisy nodes, on shared values folded in their batch dimension; ``quiet`` ones draw nothing."""
    folded: dict[fx.Node, Any] = {}

    def load(node: fx.Node) -> Any:
        if node not in folded:
            value = shared.values[node]
            if node in batch_dims:
                value = fold(value, batch_dims[node])
            elif not isinstance(value, Tensor) and node.all_input_nodes:
                value = shared.compute(node, load)  # a size, perhaps, that counts rows: take it of the folded value
            folded[node] = value
        return folded[node]

    for node in plan.graph.nodes:
        if node.op == "output":
            return load(returned_node(node))
        if node in plan.noisy:
            silenced = quiet and node in plan.draws and node.op == "call_function"
            folded[node] = load(node.all_input_nodes[0]) if silenced else shared.compute(node, load)
    raise AssertionError("a graph ends with its output")


class _Shared:
    """The values that are the same in every pass: those that are still to be looked at."""

    def __init__(self, plan: NoiseGraph, model: nn.Module, x: Tensor) -> None:
        self.interpreter = fx.Interpreter(OneInput(model), garbage_collect_values=False, graph=plan.graph)
        self.values: dict[fx.Node, Any] = {}
        looks_left = {node: len(node.users) for node in plan.shared}
        for node in plan.shared:
            if node.op == "output":
                continue
            self.values[node] = x if node.op == "placeholder" else self.compute(node, self.values.__getitem__)
            if not isinstance(self.values[node], Tensor):
                continue  # a size may have to be taken again, of the folded value
            for parent in node.all_input_nodes:
                looks_left[parent] -= 1
                if not looks_left[parent]:
                    del self.values[parent]

    def compute(self, node: fx.Node, load: Callable[[fx.Node], Any]) -> Any:
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), load)
        return getattr(self.interpreter, node.op)(node.target, args, kwargs)
