"""Which nodes of a model's graph depend on noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn

from singleshot.sampling.noise import FUNCTIONAL_NOISE, noise_is_on
from singleshot.sampling.stochastic_depth import StochasticDepthBlock
from singleshot.sampling.tracing import NotTraceableError, OneInput, trace_forward

RANDOM_FUNCTIONS = {
    torch.bernoulli, torch.rand, torch.rand_like, torch.randn, torch.randn_like, torch.randint, torch.randperm,
    torch.normal, torch.multinomial, torch.dropout, torch.rrelu, nn.functional.rrelu, nn.functional.gumbel_softmax,
}  # fmt: skip
RANDOM_METHODS = {"bernoulli", "bernoulli_", "normal_", "uniform_", "random_", "exponential_", "multinomial"}
RANDOM_MODULES = (nn.RReLU, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)
IN_PLACE_OPERATORS = {
    "setitem", "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul", "iand", "ior", "ixor",
}  # fmt: skip


@dataclass(frozen=True)
class NoiseGraph:
    """The graph of one forward pass, in the modes the model was in when it was traced."""

    graph: fx.Graph
    draws: frozenset[fx.Node]  # nodes that draw random numbers
    noisy: frozenset[fx.Node]  # those, and everything that depends on them
    copies: frozenset[fx.Node]  # draws that write to their first argument, and must be given a copy
    reorders: bool  # whether a shared value is written to that noise has looked at: the order of nodes matters

    @property
    def shared(self) -> list[fx.Node]:
        """The nodes that are the same in every pass, in order of execution."""
        return [node for node in self.graph.nodes if node not in self.noisy]


def trace(model: nn.Module) -> NoiseGraph:
    """The noise graph of a model in the modes it is in.

    Raises `NotTraceableError` where a graph cannot be had, or would not do what the model does.
    """
    root = OneInput(model)
    graph = trace_forward(root)
    draws = frozenset(node for node in graph.nodes if _draws(node, root))
    noisy = set(draws)
    for node in graph.nodes:
        if any(parent in noisy for parent in node.all_input_nodes):
            noisy.add(node)
    copies, reorders = set(), False
    for node in graph.nodes:
        written = node.args[0] if node.args and isinstance(node.args[0], fx.Node) else None
        if written is None or not _works_in_place(node, root):
            continue
        if node not in noisy:
            reorders |= any(user in noisy for user in written.users)
        elif node in draws and len(written.users) == 1 and not _is_view(written, root):
            copies.add(node)  # nobody else looks at what it writes to, so a copy is as good
        elif node in draws or written not in noisy or _parts(node, written, noisy) or _is_block(written, root):
            raise NotTraceableError(f"{node.name} works in place, on a value that several passes would share")
    return NoiseGraph(graph, draws, frozenset(noisy), frozenset(copies), reorders)


def returned_node(output: fx.Node) -> fx.Node:
    """The one value that a graph's output node returns."""
    returned = output.args[0]
    if not isinstance(returned, fx.Node):
        raise ValueError(f"the model must return one tensor of logits (B, C), it returns a {type(returned).__name__}")
    return returned


def argument(node: fx.Node, position: int, name: str, default: Any) -> Any:
    """What a node's function is called with."""
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


def _draws(node: fx.Node, root: nn.Module) -> bool:
    if node.op == "call_module":
        module = root.get_submodule(str(node.target))
        random = module.training and isinstance(module, RANDOM_MODULES)
        return random or noise_is_on(module)
    if node.op == "call_method":
        return node.target in RANDOM_METHODS
    if node.op == "call_function":
        if node.target in FUNCTIONAL_NOISE:
            return bool(argument(node, 2, "training", True)) and argument(node, 1, "p", 0.5) != 0
        if node.target is nn.functional.scaled_dot_product_attention:
            return bool(argument(node, 4, "dropout_p", 0.0) != 0)
        return node.target in RANDOM_FUNCTIONS
    return False


def _works_in_place(node: fx.Node, root: nn.Module) -> bool:
    if node.op == "call_method":
        return str(node.target).endswith("_") and not str(node.target).endswith("__")
    if node.op == "call_module":
        return bool(getattr(root.get_submodule(str(node.target)), "inplace", False))
    if node.op == "call_function":
        position = 3 if node.target in FUNCTIONAL_NOISE else 1
        written = getattr(node.target, "__name__", "") in IN_PLACE_OPERATORS
        return written or argument(node, position, "inplace", False) is True
    return False


def _parts(node: fx.Node, written: fx.Node, noisy: set[fx.Node]) -> bool:
    """Whether another argument of an in-place node may part passes that came together to the value it writes to."""
    return any(parent in noisy for parent in node.all_input_nodes if parent is not written)


def _is_view(node: fx.Node, root: nn.Module) -> bool:
    """Whether a value may be a look at another one, that others look at as well."""
    if node.op == "call_module":
        looks = isinstance(root.get_submodule(str(node.target)), (nn.Identity, nn.Flatten, nn.Unflatten))
    else:
        looks = node.op in ("call_method", "call_function", "placeholder", "get_attr")
    if not looks:
        return False
    parents = node.all_input_nodes
    return not parents or any(len(parent.users) > 1 or _is_view(parent, root) for parent in parents)


def _is_block(node: fx.Node, root: nn.Module) -> bool:
    """A dropped block hands on its input itself: writing to that would reach the passes that kept it."""
    return node.op == "call_module" and isinstance(root.get_submodule(str(node.target)), StochasticDepthBlock)
