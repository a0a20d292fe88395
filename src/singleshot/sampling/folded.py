"""Run T passes as one batch of T·B rows from the point on where the noise begins.

This is the fast way for noise in the head of a network: one large matrix product in place of T small ones. It needs
rows that do not depend on each other behind the noise, so batch norm in training mode and coins for a whole batch rule
it out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx, nn

from singleshot.sampling.coupling import couples_rows, frozen_statistics
from singleshot.sampling.graph import NoiseGraph, returned_node

PROBES = (2, 3)  # batch sizes of the two runs that show which dimension of a shared value is the batch


def can_fold(plan: NoiseGraph, model: nn.Module) -> bool:
    """Whether no layer behind the noise couples the rows of a batch."""
    behind = [model.get_submodule(str(node.target)) for node in plan.noisy if node.op == "call_module"]
    return not any(couples_rows(part) for module in behind for part in module.modules())


def run_folded(plan: NoiseGraph, model: nn.Module, x: Tensor, passes: int, batch_dims: dict[fx.Node, int]) -> Tensor:
    """The model's output for the T·B rows, pass after pass."""
    run = _Run(model, plan.graph)
    run.shared_nodes(plan.shared, x)
    folded: dict[fx.Node, Any] = {}

    def behind_the_noise(node: fx.Node) -> Any:
        """A node's value as the T·B rows see it."""
        if node not in folded:
            value = run.values[node]
            if node in batch_dims:
                repeats = [passes if dim == batch_dims[node] else 1 for dim in range(value.ndim)]
                value = value.repeat(repeats)
            elif not isinstance(value, Tensor):  # a size, perhaps, that counts rows: take it from the repeated value
                value = run.compute(node, behind_the_noise) if node.all_input_nodes else value
            folded[node] = value
        return folded[node]

    for node in plan.graph.nodes:
        if node.op == "output":
            result: Tensor = behind_the_noise(returned_node(node))
            return result
        if node in plan.noisy:
            folded[node] = run.compute(node, behind_the_noise)
    raise AssertionError("a graph ends with its output")


def find_batch_dims(plan: NoiseGraph, model: nn.Module, x: Tensor) -> dict[fx.Node, int] | None:
    """For each shared value that grows with the batch, the dimension in which it does; None where that is not clear.

    Two small runs of the shared part tell, with batch sizes of 2 and 3. They leave no trace in the model.
    """
    small, large = (_Run(model, plan.graph) for _ in PROBES)
    with torch.no_grad(), frozen_statistics(model):
        for run, rows in zip((small, large), PROBES, strict=True):
            run.shared_nodes(plan.shared, x[:1].expand(rows, *x.shape[1:]).contiguous())
    found: dict[fx.Node, int] = {}
    for node, value in small.values.items():
        if not isinstance(value, Tensor):
            continue
        sizes = list(zip(value.shape, large.values[node].shape, strict=True))
        growing = [dim for dim, (before, after) in enumerate(sizes) if before != after]
        if not growing:
            continue
        before, after = sizes[growing[0]]
        if len(growing) > 1 or before * PROBES[1] != after * PROBES[0]:
            return None
        found[node] = growing[0]
    return found


def draws_while_sharing(plan: NoiseGraph, model: nn.Module, x: Tensor) -> bool:
    """Whether the part that was taken for free of noise draws random numbers all the same."""
    devices = [x.device] if x.device.type == "cuda" else []

    def state() -> list[Tensor]:
        return [torch.get_rng_state(), *(torch.cuda.get_rng_state(device) for device in devices)]

    with torch.no_grad(), frozen_statistics(model), torch.random.fork_rng(devices=devices):
        before = state()
        _Run(model, plan.graph).shared_nodes(plan.shared, x)
        return not all(torch.equal(one, other) for one, other in zip(before, state(), strict=True))


class _Run:
    """One evaluation of the nodes that need no noise."""

    def __init__(self, model: nn.Module, graph: fx.Graph) -> None:
        self.interpreter = fx.Interpreter(model, graph=graph)
        self.values: dict[fx.Node, Any] = {}

    def shared_nodes(self, nodes: list[fx.Node], x: Tensor) -> None:
        """Compute what needs no noise, and keep what is still to be looked at."""
        looks_left = {node: len(node.users) for node in nodes}
        for node in nodes:
            if node.op == "placeholder":
                self.values[node] = x if not self.values else node.args[0]
            elif node.op != "output":
                self.values[node] = self.compute(node, self.values.__getitem__)
            if not isinstance(self.values.get(node), Tensor):
                continue  # a size may have to be taken again, of the repeated value
            for parent in node.all_input_nodes:
                looks_left[parent] -= 1
                if not looks_left[parent]:
                    del self.values[parent]

    def compute(self, node: fx.Node, load: Any) -> Any:
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), load)
        return getattr(self.interpreter, node.op)(node.target, args, kwargs)
