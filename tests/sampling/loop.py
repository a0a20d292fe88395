"""What sampling is compared with: a plain loop over passes from the same random state."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

import singleshot as ss
from singleshot.sampling.sampler import find_logits

Outcome = tuple[Tensor, list[Tensor]]


def loop(model: nn.Module, *args: Any, samples: int, **kwargs: Any) -> Tensor:
    """T plain passes, with the noise on in evaluation mode, too."""
    with nullcontext() if model.training else ss.stochastic(model):
        return torch.stack([find_logits(model(*args, **kwargs)) for _ in range(samples)])


def outcome(logits: Tensor, model: nn.Module) -> Outcome:
    """The logits, and the gradients of a random projection of them."""
    weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(5)).to(logits)
    (logits * weights).sum().backward()  # type: ignore[no-untyped-call]
    return logits.detach(), [p.grad if p.grad is not None else torch.zeros_like(p) for p in model.parameters()]


def both(model: nn.Module, *args: Any, samples: int = 4, **kwargs: Any) -> tuple[Outcome, Outcome]:
    """Outcomes of the loop, on a copy of the model, and of `sample`, from the same random state."""
    twin = copy.deepcopy(model)
    state = torch.get_rng_state()
    expected = loop(twin, *args, samples=samples, **kwargs)
    after = torch.get_rng_state()
    torch.set_rng_state(state)
    logits = ss.sample(model, *args, samples=samples, **kwargs)
    assert torch.equal(torch.get_rng_state(), after)
    return outcome(expected, twin), outcome(logits, model)
