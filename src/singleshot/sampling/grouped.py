"""Run T passes through one graph, computing once whatever several of them have in common.

Passes start out as one group. A dropout parts them all, for every pass has masks of its own; the coin of a
stochastic-depth block parts them in two, those that keep the block and those that drop it. A node is computed once for
all passes that came the same way to it, so that a shared trunk is computed once and stochastic depth becomes a prefix
tree. It is exact: each pass gets what it would have computed alone, batch statistics included.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from singleshot.models.stochastic_depth import StochasticDepthBlock
from singleshot.sampling.coupling import one_call_per_pass
from singleshot.sampling.graph import NoiseGraph, returned_node
from singleshot.sampling.noise import noise_is_on


@dataclass
class _Values:
    """What a node gave: one value per group of passes, and the group each pass is in."""

    group_of_pass: list[int]
    by_group: list[Any]


def run_passes(plan: NoiseGraph, model: nn.Module, x: Tensor, passes: int) -> list[Any]:
    """The model's output for each pass; passes that never parted share one object."""
    runner = fx.Interpreter(model, graph=plan.graph)
    last_use = _last_uses(plan.graph)
    values: dict[fx.Node, _Values] = {}
    for node in plan.graph.nodes:
        if node.op == "placeholder":
            given = x if not values else _default(node)
            values[node] = _Values([0] * passes, [given])
        elif node.op == "output":
            result = values[returned_node(node)]
            return [result.by_group[group] for group in result.group_of_pass]
        else:
            values[node] = _run_node(node, plan, runner, values, passes)
        for finished in last_use.get(node, ()):
            del values[finished]
    raise AssertionError("a graph ends with its output")


def _run_node(
    node: fx.Node, plan: NoiseGraph, runner: fx.Interpreter, values: dict[fx.Node, _Values], passes: int
) -> _Values:
    block = _coin_block(node, plan, runner.module)
    if block is not None:
        return _run_block(block, values[node.all_input_nodes[0]])
    groups: dict[Hashable, int] = {}
    result = _Values([], [])
    for number in range(passes):
        way: Hashable = tuple(values[parent].group_of_pass[number] for parent in node.all_input_nodes)
        if node in plan.draws:
            way = (way, number)  # masks of its own: no two passes are alike from here on
        if way not in groups:
            groups[way] = len(result.by_group)
            args, kwargs = _arguments(node, values, number)
            if node in plan.copies:
                args = (args[0].clone(), *args[1:])
            result.by_group.append(getattr(runner, node.op)(node.target, args, kwargs))
        result.group_of_pass.append(groups[way])
    return result


def _run_block(block: StochasticDepthBlock, inputs: _Values) -> _Values:
    """Each pass tosses its coin; the passes of a group that part here still have the shortcut in common."""
    ways = [(group, block.draw()) for group in inputs.group_of_pass]
    parted = list(dict.fromkeys(ways))
    shortcuts = {group: block.shortcut(inputs.by_group[group]) for group in dict.fromkeys(inputs.group_of_pass)}
    keeping = [group for group, kept in parted if kept]
    branches = dict(zip(keeping, _run_branch(block, [inputs.by_group[group] for group in keeping]), strict=True))
    outputs = [block.joined(shortcuts[group], branches[group] if kept else None) for group, kept in parted]
    return _Values([parted.index(way) for way in ways], outputs)


def _run_branch(block: StochasticDepthBlock, inputs: list[Tensor]) -> Sequence[Tensor]:
    """The branch for each of several inputs: as one batch where its weights outweigh them, as they do late in a net."""
    weights = sum(parameter.numel() for parameter in block.branch.parameters())
    if len(inputs) < 2 or inputs[0].numel() > weights:
        return [block.branch(x) for x in inputs]
    with one_call_per_pass(block.branch, len(inputs)):
        together: Tensor = block.branch(torch.cat(inputs))
    return together.chunk(len(inputs))


def _arguments(node: fx.Node, values: dict[fx.Node, _Values], number: int) -> Any:
    """What a node is called with in this pass."""

    def load(parent: fx.Node) -> Any:
        return values[parent].by_group[values[parent].group_of_pass[number]]

    return fx.node.map_arg((node.args, node.kwargs), load)


def _coin_block(node: fx.Node, plan: NoiseGraph, model: nn.Module) -> StochasticDepthBlock | None:
    """The block a node stands for, if its noise is one coin: unless there is dropout inside it as well."""
    if node.op != "call_module" or node not in plan.draws:
        return None
    module = model.get_submodule(str(node.target))
    if not isinstance(module, StochasticDepthBlock) or any(noise_is_on(child) for child in module.children()):
        return None
    return module


def _last_uses(graph: fx.Graph) -> dict[fx.Node, list[fx.Node]]:
    """For each node, the values that nobody needs after it."""
    last: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        for parent in (*node.all_input_nodes, node):
            last[parent] = node
    result: dict[fx.Node, list[fx.Node]] = {}
    for value, user in last.items():
        result.setdefault(user, []).append(value)
    return result


def _default(placeholder: fx.Node) -> Any:
    if not placeholder.args:
        raise ValueError(f"the model's forward needs another argument, {placeholder.target}; sample() passes one input")
    return placeholder.args[0]
