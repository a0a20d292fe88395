"""Dropout for a model that has no noise, added before some of its layers and removed again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from singleshot.common.checks import check_range
from singleshot.common.text import listed, unknown_name
from singleshot.sampling.noise import runs_compiled_code

NAME = "added_noise"
"""Name of the dropout among the children of the layer. It has no weights, so the state dict does not change."""
WHERE = "'head', 'blocks' or a list of layer names"
CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


@dataclass(frozen=True)
class AddedNoise:
    """What `add_noise` changed, to be printed."""

    p: float
    layers: tuple[str, ...]

    def __str__(self) -> str:
        what = "layer" if len(self.layers) == 1 else f"{len(self.layers)} layers"
        return f"Dropout with p = {self.p:g} before {what} {listed([repr(name) for name in self.layers])}"


def add_noise(model: nn.Module, p: float = 0.2, where: str | Iterable[str] = "head") -> AddedNoise:
    """Add dropout to a model, so that its stochastic passes differ; the result says where.

    Only training mode and `singleshot.sample` notice it: in evaluation mode the outputs are as before, and the keys
    of the state dict are the same in both. (A fused ``nn.TransformerEncoderLayer`` takes its ordinary path instead,
    which rounds differently.) The model can be copied, pickled, compiled and exported. `remove_noise` undoes it.

    Args:
        model: any classifier. It is changed in place, before it is compiled or wrapped.
        p: the rate of the dropout.
        where: ``head``: before the last linear layer; ``blocks``: before each of the blocks that the model repeats,
            such as residual blocks or transformer layers; or names of layers, as in ``model.named_modules()``.

    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> print(add_noise(model, p=0.5))
    Dropout with p = 0.5 before layer '2'
    >>> remove_noise(model)
    ('2',)
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be an nn.Module, got {type(model).__name__}")
    if runs_compiled_code(model) or isinstance(model, torch.jit.ScriptModule):
        raise ValueError("this model is compiled, and would not notice the noise; add it before compiling")
    check_range("p", p, "(0, 1)")
    names = _find(model, where)
    modules = dict(model.named_modules())
    targets = {name: _first_called(modules[name]) for name in names}
    for name, target in targets.items():
        if hasattr(target, NAME):
            raise ValueError(f"layer {name!r} has added noise already; remove it first: remove_noise(model)")
    for target in dict.fromkeys(targets.values()):  # a layer may have two names
        target.add_module(NAME, nn.Dropout(p).train(target.training))
        target.register_forward_pre_hook(_drop, with_kwargs=True)
    return AddedNoise(p, tuple(names))


def remove_noise(model: nn.Module) -> tuple[str, ...]:
    """Remove the dropout that `add_noise` added, and return the names of its layers.

    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> added = add_noise(model, p=0.5)
    >>> remove_noise(model)
    ('2',)
    """
    found = []
    for name, module in list(model.named_modules()):
        ours = [key for key, hook in module._forward_pre_hooks.items() if hook is _drop]
        for key in ours:
            del module._forward_pre_hooks[key]
            module._forward_pre_hooks_with_kwargs.pop(key, None)
        if ours:
            del module._modules[NAME]
            found.append(name)
    return tuple(found)


def _drop(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Apply the dropout to the first floating-point input. A hook at module level, so that it can be pickled."""
    for position, value in enumerate(args):
        if isinstance(value, Tensor) and value.is_floating_point():
            return (*args[:position], module._modules[NAME](value), *args[position + 1 :]), kwargs  # type: ignore[misc]
    for name, value in kwargs.items():
        if isinstance(value, Tensor) and value.is_floating_point():
            return args, {**kwargs, name: module._modules[NAME](value)}  # type: ignore[misc]
    raise TypeError(
        f"dropout cannot be added before this {type(module).__name__}, which has no floating-point input; name "
        "other layers: add_noise(model, where=[...])"
    )


def _find(model: nn.Module, where: str | Iterable[str]) -> list[str]:
    if where == "head":
        return [_last_linear(model)]
    if where == "blocks":
        return _blocks(model)
    if isinstance(where, str):
        raise ValueError(f"where must be {WHERE}, got {where!r}")
    names = list(where) if isinstance(where, Iterable) else [where]
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"where must be {WHERE}, got {where!r}")
    known = [name for name, _ in model.named_modules() if name]
    for name in names:
        if name not in known:
            raise unknown_name("layer", name, known[:50], " …" if len(known) > 50 else "")
    if not names:
        raise ValueError("where must name at least one layer, got an empty list")
    for name in names:
        if model.get_submodule(name) in _parts_of_attentions(model):
            raise ValueError(f"dropout cannot be added before {name!r}, which is never called: name the attention")
    return names


def _parts_of_attentions(model: nn.Module) -> set[nn.Module]:
    """The output layer of an attention is not called: torch's function takes its weights."""
    attentions = [module for module in model.modules() if isinstance(module, nn.MultiheadAttention)]
    return {part for attention in attentions for part in attention.children()}


def _last_linear(model: nn.Module) -> str:
    parts = _parts_of_attentions(model)
    linear = (name for name, part in model.named_modules() if isinstance(part, nn.Linear) and part not in parts)
    found: list[str] = list(linear)
    if not found:
        raise ValueError(f"{type(model).__name__} has no linear layer; name the layers: add_noise(model, where=[...])")
    return found[-1]


def _blocks(model: nn.Module) -> list[str]:
    """The outermost modules with parts of their own whose class occurs at least twice in a list or a sequence."""
    inside = {
        f"{name}.{child_name}" if name else child_name: child
        for name, parent in model.named_modules()
        if isinstance(parent, CONTAINERS)
        for child_name, child in parent.named_children()
        if any(True for _ in child.children()) and not isinstance(child, nn.ModuleList | nn.ModuleDict)
    }
    counts = Counter(type(child) for child in inside.values())
    repeated = {name: child for name, child in inside.items() if counts[type(child)] >= 2}
    # Stages are sequences of blocks: a block has a class of its own, if there is any such class.
    proper = {name for name, child in repeated.items() if not isinstance(child, nn.Sequential)}
    names = proper or set(repeated)
    outermost = [name for name in repeated if name in names and not any(name.startswith(f"{one}.") for one in names)]
    if not outermost:
        raise ValueError(f"no repeated blocks were found in {type(model).__name__}; use where='head' or layer names")
    return outermost


def _first_called(module: nn.Module) -> nn.Module:
    """A sequence calls all its children, so its first part takes the dropout instead."""
    while isinstance(module, nn.Sequential):
        if not len(module):
            raise ValueError("dropout cannot be added before an empty nn.Sequential")
        module = module[0]
    if isinstance(module, nn.ModuleList | nn.ModuleDict):
        raise ValueError(f"dropout cannot be added before a {type(module).__name__}, which is never called")
    return module
