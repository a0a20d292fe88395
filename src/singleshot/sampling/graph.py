"""A model as a graph, and which of its nodes depend on noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn

from singleshot.models.stochastic_depth import StochasticDepthBlock
from singleshot.sampling.noise import FUNCTIONAL_NOISE, is_noise, noise_is_on

RANDOM_FUNCTIONS = {
    torch.bernoulli, torch.rand, torch.rand_like, torch.randn, torch.randn_like, torch.randint, torch.randperm,
    torch.normal, torch.multinomial, torch.dropout, torch.rrelu, nn.functional.rrelu, nn.functional.gumbel_softmax,
}  # fmt: skip
RANDOM_METHODS = {"bernoulli", "bernoulli_", "normal_", "uniform_", "random_", "exponential_", "multinomial"}
RANDOM_MODULES = (nn.RReLU, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)


class NotTraceableError(Exception):
    """Says why a model has no graph that can be shared between passes."""


@dataclass(frozen=True)
class NoiseGraph:
    """The graph of one forward pass, in the modes the model was in when it was traced."""

    graph: fx.Graph
    draws: frozenset[fx.Node]  # nodes that draw random numbers
    noisy: frozenset[fx.Node]  # those, and everything that depends on them
    copies: frozenset[fx.Node]  # nodes that write to their first argument, and must be given a copy

    @property
    def shared(self) -> list[fx.Node]:
        """The nodes that are the same in every pass, in order of execution."""
        return [node for node in self.graph.nodes if node not in self.noisy]


def trace(model: nn.Module) -> NoiseGraph:
    """The noise graph of a model in the modes it is in.

    Raises `NotTraceableError` where a graph cannot be had, or would not do what the model does.
    """
    _refuse_hooks(model)
    try:
        graph = _Tracer().trace(model)
    except Exception as error:  # tracing runs the user's own code, which may fail in any way
        raise NotTraceableError(f"torch.fx cannot trace it ({_first_line(error)})") from None
    _refuse_constants(graph)
    draws = frozenset(node for node in graph.nodes if _draws(node, model))
    noisy = set(draws)
    for node in graph.nodes:
        if any(parent in noisy for parent in node.all_input_nodes):
            noisy.add(node)
    copies = _writes_to_shared_values(graph, model, draws, noisy)
    return NoiseGraph(graph, draws, frozenset(noisy), frozenset(copies))


class _Tracer(fx.Tracer):
    """Stops at layers that are one idea: torch's own, and noise layers, whose branches a graph cannot hold."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return is_noise(m) or super().is_leaf_module(m, module_qualified_name)


def _draws(node: fx.Node, model: nn.Module) -> bool:
    if node.op == "call_module":
        module = model.get_submodule(str(node.target))
        random = module.training and isinstance(module, RANDOM_MODULES)
        return random or noise_is_on(module)
    if node.op == "call_method":
        return node.target in RANDOM_METHODS
    if node.op == "call_function":
        if node.target in FUNCTIONAL_NOISE:
            return bool(_argument(node, 2, "training", True)) and _argument(node, 1, "p", 0.5) != 0
        if node.target is nn.functional.scaled_dot_product_attention:
            return bool(_argument(node, 4, "dropout_p", 0.0) != 0)
        return node.target in RANDOM_FUNCTIONS
    return False


def _argument(node: fx.Node, position: int, name: str, default: Any) -> Any:
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


def _refuse_hooks(module: nn.Module, name: str = "") -> None:
    """A graph runs the leaves and passes over the modules around them, and with those over their hooks.

    So does the tree over the blocks it keeps or drops; within a leaf everything is called as ever.
    """
    leaf = bool(name) and _Tracer().is_leaf_module(module, name)
    passed_over = not leaf or isinstance(module, StochasticDepthBlock)
    if passed_over and (module._forward_hooks or module._forward_pre_hooks):
        raise NotTraceableError(f"module {name or type(module).__name__!r} has forward hooks, which would be skipped")
    if not leaf:
        for child_name, child in module.named_children():
            _refuse_hooks(child, f"{name}.{child_name}" if name else child_name)


def _refuse_constants(graph: fx.Graph) -> None:
    """A tensor made while tracing, perhaps a random one, would be the same for ever after."""
    for node in graph.nodes:
        if node.op == "get_attr" and str(node.target).startswith("_tensor_constant"):
            raise NotTraceableError("its forward makes a tensor that does not depend on the input")


def _writes_to_shared_values(
    graph: fx.Graph, model: nn.Module, draws: frozenset[fx.Node], noisy: set[fx.Node]
) -> set[fx.Node]:
    """In-place nodes that would write for one pass what another still has to read, and need a copy to write to.

    That is so where a node parts passes, by noise of its own or of another argument, that came together to the value it
    writes to. A copy is as good as the original if nobody else looks at it.
    """
    found = set()
    for node in graph.nodes:
        if node not in noisy or not _works_in_place(node, model):
            continue
        written = node.args[0] if node.args and isinstance(node.args[0], fx.Node) else None
        if node not in draws and not any(parent in noisy for parent in node.all_input_nodes if parent is not written):
            continue
        if written is None or len(written.users) > 1:
            raise NotTraceableError(f"{node.name} works in place, on a value that several passes would share")
        found.add(node)
    return found


def _works_in_place(node: fx.Node, model: nn.Module) -> bool:
    if node.op == "call_method":
        return str(node.target).endswith("_") and not str(node.target).endswith("__")
    if node.op == "call_module":
        return bool(getattr(model.get_submodule(str(node.target)), "inplace", False))
    if node.op == "call_function":
        named = getattr(node.target, "__name__", "")
        in_place_operator = named in ("setitem", "iadd", "isub", "imul", "itruediv")
        position = 3 if node.target in FUNCTIONAL_NOISE else 1
        return in_place_operator or _argument(node, position, "inplace", False) is True
    return False


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def returned_node(output: fx.Node) -> fx.Node:
    """The one value that a graph's output node returns."""
    returned = output.args[0]
    if not isinstance(returned, fx.Node):
        raise ValueError(f"the model must return one tensor of logits (B, C), it returns a {type(returned).__name__}")
    return returned
