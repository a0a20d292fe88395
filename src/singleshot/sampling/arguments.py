"""Checks of the arguments of `sample`, before any work."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from singleshot.common.checks import check_choice, check_size

Extract = Callable[[Any], Tensor]
"""Returns the logits, given the output of a model."""
MEMORY = ("normal", "low")


def device_of(model: nn.Module, inputs: Any) -> torch.device:
    """The device of the model; an input on another one is an error."""
    homes = {parameter.device for parameter in model.parameters()}
    given = [leaf.device for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor)]
    if not homes:
        return given[0] if given else torch.device("cpu")
    home = next(iter(homes))
    if len(homes) == 1 and given and home not in given:
        raise ValueError(f"the input is on {given[0]} and the model on {home}; move the input with .to({str(home)!r})")
    return home


def check_arguments(
    model: nn.Module,
    samples: int,
    gradient_passes: int | None = None,
    *,
    logits: Extract | None = None,
    seed: int | None = None,
    generator: torch.Generator | None = None,
    memory: str = "normal",
) -> None:
    """Refuse what cannot be sampled, before any work."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be an nn.Module, got {type(model).__name__}")
    check_size("samples", samples, least=1)
    if gradient_passes is not None and check_size("gradient_passes", gradient_passes, least=1) > samples:
        raise ValueError(f"gradient_passes must be at most samples={samples}, got {gradient_passes}")
    if seed is not None and check_size("seed", seed, least=0) >= 2**63:
        raise ValueError(f"seed must lie in [0, 2**63), got {seed}")
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(f"generator must be a torch.Generator, got {type(generator).__name__}")
    if logits is not None and not callable(logits):
        raise TypeError(f"logits must be a function of the model's output, got {type(logits).__name__}")
    if seed is not None and generator is not None:
        raise ValueError("give seed or generator, not both")
    check_choice("memory", memory, MEMORY)
    _refuse_unsynchronised(model)


_KNOWN_UNWRAPPED: WeakSet[nn.Module] = WeakSet()


def _refuse_unsynchronised(model: nn.Module) -> None:
    """DistributedDataParallel synchronises gradients only if its own forward is called."""
    ddp = nn.parallel.DistributedDataParallel
    advice = "wrap the model first: DistributedDataParallel(ss.Sampled(model)), and call that"
    if isinstance(model, ddp):
        raise ValueError(f"sample() cannot run inside DistributedDataParallel from outside; {advice}")
    is_distributed = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
    if not is_distributed or ddp._active_ddp_module is not None or not (model.training and torch.is_grad_enabled()):
        return
    if model not in _KNOWN_UNWRAPPED:
        if any(issubclass(type(found), ddp) and found.module is model for found in gc.get_objects()):
            raise ValueError(f"this model is wrapped in DistributedDataParallel, which sample() would bypass; {advice}")
        _KNOWN_UNWRAPPED.add(model)
