"""Run T passes through one graph, computing once whatever several of them have in common.

Passes start out as one group. A dropout parts them all, for every pass has masks of its own; the coin of a
stochastic-depth block parts them in two, those that keep the block and those that drop it. A node is computed once for
all passes that came the same way to it, so that a shared trunk is computed once and stochastic depth becomes a prefix
tree. It is exact: each pass gets what it would have computed alone, batch statistics included.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, fx, nn

from singleshot.models.stochastic_depth import StochasticDepthBlock
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
    parents = node.all_input_nodes
    groups: dict[Hashable, int] = {}
    shortcuts: dict[Hashable, Tensor] = {}
    result = _Values([], [])
    for number in range(passes):
        way: Hashable = tuple(values[parent].group_of_pass[number] for parent in parents)
        kept = block.draw() if block is not None else None
        if block is None and node in plan.draws:
            way = (way, number)  # masks of its own: no two passes are alike from here on
        key = (way, kept)
        if key not in groups:
            groups[key] = len(result.by_group)
            args, kwargs = _arguments(node, values, number)
            if node in plan.copies:
                args = (args[0].clone(), *args[1:])
            if block is None:
                result.by_group.append(getattr(runner, node.op)(node.target, args, kwargs))
            else:  # passes that part at this coin still have the shortcut in common
                if way not in shortcuts:
                    shortcuts[way] = block.shortcut(*args)
                result.by_group.append((block.kept if kept else block.dropped)(*args, shortcuts[way]))
        result.group_of_pass.append(groups[key])
    return result


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
