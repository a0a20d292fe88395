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

import torch
from torch import Tensor, fx, nn

from singleshot.sampling.coupling import one_call_per_pass
from singleshot.sampling.graph import NoiseGraph, returned_node
from singleshot.sampling.noise import noise_is_on
from singleshot.sampling.stochastic_depth import StochasticDepthBlock
from singleshot.sampling.tracing import OneInput


@dataclass
class _Values:
    """What a node gave: one value per group of passes, and the group each pass is in."""

    group_of_pass: list[int]
    by_group: list[Any]


def run_passes(plan: NoiseGraph, model: nn.Module, x: Tensor, passes: int) -> list[Any]:
    """The model's output for each pass; passes that never parted share one object."""
    runner = fx.Interpreter(OneInput(model), garbage_collect_values=False, graph=plan.graph)
    last_use = _last_uses(plan.graph)
    values: dict[fx.Node, _Values] = {}
    for node in plan.graph.nodes:
        if node.op == "placeholder":
            values[node] = _Values([0] * passes, [x])
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
    ways: list[Hashable] = []
    for number in range(passes):
        way: Hashable = tuple(values[parent].group_of_pass[number] for parent in node.all_input_nodes)
        ways.append((way, number) if node in plan.draws else way)  # masks of its own part every pass from the others
    parted = list(dict.fromkeys(ways))
    calls = [_arguments(node, values, number=ways.index(way)) for way in parted]
    return _Values([parted.index(way) for way in ways], _run_calls(node, plan, runner, calls))


def _run_calls(node: fx.Node, plan: NoiseGraph, runner: fx.Interpreter, calls: list[Any]) -> list[Any]:
    """What a node gives for each of several sets of arguments."""
    module = runner.module.get_submodule(str(node.target)) if node.op == "call_module" else None
    if module is not None and all(_maps_rows(module, *args, **kwargs) for args, kwargs in calls):
        return _run_module(module, [args[0] for args, _ in calls])
    if node in plan.copies:
        calls = [((args[0].clone(), *args[1:]), kwargs) for args, kwargs in calls]
    return [getattr(runner, node.op)(node.target, args, kwargs) for args, kwargs in calls]


def _maps_rows(module: nn.Module, *args: Any, **kwargs: Any) -> bool:
    """Whether this is a layer with weights that maps the rows of its one argument, each by itself."""
    if kwargs or len(args) != 1 or not isinstance(args[0], Tensor):
        return False
    if isinstance(module, nn.modules.conv._ConvNd):
        return args[0].ndim == len(module.kernel_size) + 2
    return isinstance(module, nn.Linear) and args[0].ndim > 1


def _run_block(block: StochasticDepthBlock, inputs: _Values) -> _Values:
    """Each pass tosses its coin; the passes of a group that part here still have the shortcut in common."""
    ways = [(group, block.draw()) for group in inputs.group_of_pass]
    parted = list(dict.fromkeys(ways))
    shortcuts = {group: block.shortcut(inputs.by_group[group]) for group in dict.fromkeys(inputs.group_of_pass)}
    keeping = [group for group, kept in parted if kept]
    branches = dict(zip(keeping, _run_module(block.branch, [inputs.by_group[g] for g in keeping]), strict=True))
    outputs = [block.joined(shortcuts[group], branches[group] if kept else None) for group, kept in parted]
    return _Values([parted.index(way) for way in ways], outputs)


def _run_module(module: nn.Module, inputs: list[Tensor]) -> list[Tensor]:
    """A module's output for each of several batches: in one call where its weights outweigh them, as late in a net."""
    weights = sum(parameter.numel() for parameter in module.parameters())
    if len(inputs) < 2 or inputs[0].numel() > weights:
        return [module(x) for x in inputs]
    with one_call_per_pass(module, len(inputs)):
        together: Tensor = module(torch.cat(inputs))
    return list(together.chunk(len(inputs)))


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
