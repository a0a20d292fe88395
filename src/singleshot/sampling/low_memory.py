"""T passes that keep the activations of one: each runs without them, and once more when its gradient is due."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from types import TracebackType
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from singleshot.sampling.noise import noise_on
from singleshot.sampling.state import frozen_buffers


def replayed_passes(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    samples: int,
    *,
    gradient_passes: int | None,
    extract: Callable[[Any], Any],
) -> list[Any]:
    """Return ``extract(output)`` of T plain passes; backward replays one pass at a time from its saved random state.

    A replay draws the same masks and leaves batch norm's running statistics alone: they have recorded this pass
    already.
    """

    def first_run_and_replay() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), _Replay(model)

    found = []
    for number in range(samples):
        if gradient_passes is None or number < gradient_passes:
            output = checkpoint(model, *args, use_reentrant=False, context_fn=first_run_and_replay, **kwargs)
        else:
            with torch.no_grad():
                output = model(*args, **kwargs)
        found.append(extract(output))
    return found


class _Replay(AbstractContextManager[None]):
    """The model in the modes of the first run, on copies of its buffers; entered once for every backward."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.modes = [module.training for module in model.modules()]
        self.entered: list[ExitStack] = []

    def __enter__(self) -> None:
        stack = ExitStack()
        self.entered.append(stack)
        modules = list(self.model.modules())
        now = [module.training for module in modules]
        stack.callback(_set_modes, modules, now)
        _set_modes(modules, self.modes)
        if not self.model.training:
            stack.enter_context(noise_on(modules))
        stack.enter_context(frozen_buffers(self.model))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.entered.pop().close()


def _set_modes(modules: list[nn.Module], modes: list[bool]) -> None:
    for module, training in zip(modules, modes, strict=True):
        module.training = training
