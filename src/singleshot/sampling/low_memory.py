"""T passes that keep the activations of one: each is computed without them, and once more when its gradient is due."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from singleshot.sampling.coupling import frozen_statistics
from singleshot.sampling.noise import noise_on_for_sampling


def run_replayed(model: nn.Module, x: Tensor, passes: int) -> list[Any]:
    """The model's output for each of T plain passes; backward replays one pass at a time from its saved random state.

    A replay draws the masks of the first run again, and leaves batch norm's running statistics alone: they have seen
    this pass already.
    """

    def first_run_and_replay() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), _replay(model)

    return [
        checkpoint(model, x, use_reentrant=False, preserve_rng_state=True, context_fn=first_run_and_replay)
        for _ in range(passes)
    ]


@contextmanager
def _replay(model: nn.Module) -> Iterator[None]:
    """Backward comes after sample() has put the modes back: the replay needs its noise on again."""
    with noise_on_for_sampling(model), frozen_statistics(model):
        yield
