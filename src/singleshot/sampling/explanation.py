"""Why sampling a model costs what it costs."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from singleshot.sampling.arguments import check_arguments, device_of
from singleshot.sampling.noise import calling_module, check_noise, no_noise_message, noise_layers
from singleshot.sampling.sampler import noise_in_mode, shared_passes
from singleshot.sampling.state import frozen_buffers, random_state, used_by_this_thread


@dataclass(frozen=True)
class Explanation:
    """What `sample` shared in one run of T passes."""

    noise: tuple[str, ...]  # names of the noise layers
    starts_at: str | None  # the noise layer, or the function and the module, that drew random numbers first
    flops: tuple[int, ...]  # floating-point operations of each pass; the first pass shares nothing

    @property
    def relative_work(self) -> float:
        """The work of all passes over that of the first."""
        return sum(self.flops) / max(self.flops[0], 1)

    @property
    def shared_work(self) -> float:
        """The share of a pass that the others do not repeat, on average."""
        repeated = sum(self.flops[1:]) / max(len(self.flops) - 1, 1)
        return 1 - repeated / max(self.flops[0], 1)

    def __str__(self) -> str:
        lines = [
            f"noise layers: {', '.join(map(repr, self.noise)) or 'none; noise in the code of the model'}",
            f"noise starts at: {self.starts_at or 'unknown: no torch call drew random numbers'}",
            f"shared: {self.shared_work:.0%} of a pass; {len(self.flops)} passes cost {self.relative_work:.2f} times "
            "one",
        ]
        return "\n".join(lines)


def explain(model: nn.Module, *args: Any, samples: int = 5, **kwargs: Any) -> Explanation:
    """Run T passes of this model on this batch, in its current mode, and report what they shared.

    The model, its buffers and torch's random state are left as they were.

    >>> model = nn.Sequential(nn.Linear(4, 60), nn.ReLU(), nn.Dropout(0.5), nn.Linear(60, 4))
    >>> print(explain(model, torch.randn(2, 4)))
    noise layers: '2'
    noise starts at: '2'
    shared: 50% of a pass; 5 passes cost 3.00 times one
    """
    check_arguments(model, samples)
    modules, layers = list(model.modules()), noise_layers(model)
    check_noise(model, modules)
    names = {module: name for name, module in model.named_modules()}
    starts: list[str] = []

    def note(function: Any) -> None:
        name = names.get(calling_module() or model, "")
        described = f"{getattr(function, '__name__', function)} in {name or type(model).__name__}"
        starts.append(repr(name) if name in layers else described)

    with ExitStack() as stack:
        stack.enter_context(used_by_this_thread(model, modules))
        stack.enter_context(random_state(0, None, device_of(model, (args, kwargs))))
        stack.enter_context(frozen_buffers(model))
        stack.enter_context(noise_in_mode(model, modules))
        stack.enter_context(torch.no_grad())
        counters: list[FlopCounterMode] = []

        def counting() -> FlopCounterMode:
            counters.append(FlopCounterMode(display=False))
            return counters[-1]

        shared_passes(model, args, kwargs, samples, on_noise=note, around_pass=counting)
    flops = tuple(counter.get_total_flops() for counter in counters)
    if not starts and not layers:
        raise ValueError(no_noise_message(model))
    return Explanation(tuple(layers), starts[0] if starts else None, flops)
