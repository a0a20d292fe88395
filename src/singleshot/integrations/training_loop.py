"""A plain training loop over the user's own data loader, for what has no trainer of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from singleshot.common.checks import check_loader, check_range, check_size
from singleshot.common.progress import tracked
from singleshot.losses import VWCILoss
from singleshot.losses.terms import ClassificationLoss
from singleshot.sampling import sample
from singleshot.sampling.arguments import Extract, check_arguments
from singleshot.sampling.sampler import find_logits
from singleshot.training.loaders import Batch, read_batch

NO_BATCHES = "the loader has no batches; a generator has them once, so give a loader or a list"
MakeOptimizer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]


@dataclass(eq=False)
class Training:
    """Training of a model in place, with a learning rate that falls linearly to 0; all arguments are checked first.

    VWCI is computed from T stochastic passes, any other loss from one. With a loader that has no length, the rate falls
    after each epoch. The title is that of a progress bar.
    """

    model: nn.Module
    loader: Iterable[Any]
    _: KW_ONLY
    epochs: int
    make_optimizer: MakeOptimizer
    loss: ClassificationLoss
    samples: int = 5
    gradient_passes: int | None = None
    logits: Extract | None = None
    title: str | None = None

    def __post_init__(self) -> None:
        check_size("samples", self.samples, least=2 if isinstance(self.loss, VWCILoss) else 1)
        check_arguments(self.model, self.samples, self.gradient_passes, logits=self.logits)
        check_size("epochs", self.epochs, least=1)
        check_loader("loader", self.loader)
        self.steps_per_epoch = len(self.loader) if isinstance(self.loader, Sized) else None
        if self.steps_per_epoch == 0:
            raise ValueError(NO_BATCHES)
        if not callable(self.make_optimizer):
            kind = type(self.make_optimizer).__name__
            raise TypeError(f"make_optimizer must be a function of the list of parameters, got {kind}")
        parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        if not parameters:
            raise ValueError(f"{type(self.model).__name__} has no parameters to train")
        self.device = parameters[0].device
        self.optimizer = self.make_optimizer(parameters)

    def run(self) -> None:
        """Train for all epochs."""
        base_rates = [group["lr"] for group in self.optimizer.param_groups]
        for epoch in range(self.epochs) if self.title is None else tracked(range(self.epochs), self.title):
            self.model.train()
            steps = 0
            for steps, given in enumerate(self.loader, start=1):
                share = 0.0 if self.steps_per_epoch is None else min((steps - 1) / self.steps_per_epoch, 1)
                done = (epoch + share) / self.epochs
                for group, rate in zip(self.optimizer.param_groups, base_rates, strict=True):
                    group["lr"] = rate * (1 - done)
                self.optimizer.zero_grad()
                self._loss_of(read_batch(given, self.device)).backward()  # type: ignore[no-untyped-call]
                self.optimizer.step()
            if not steps:
                raise ValueError(NO_BATCHES)

    def _loss_of(self, batch: Batch) -> Tensor:
        if not isinstance(self.loss, VWCILoss):
            found = (self.logits or find_logits)(self.model(*batch.args, **batch.kwargs))
        else:
            options: dict[str, Any] = {"gradient_passes": self.gradient_passes, "logits": self.logits}
            found = sample(self.model, *batch.args, samples=self.samples, **options, **batch.kwargs)
        return self.loss(found, batch.labels)  # type: ignore[no-any-return]


def adamw(learning_rate: float, weight_decay: float) -> MakeOptimizer:
    """Return a function that makes an AdamW optimizer for some parameters."""
    rate, decay = (
        check_range("learning_rate", learning_rate, "(0, inf)"),
        check_range("weight_decay", weight_decay, "[0, inf)"),
    )
    return lambda parameters: torch.optim.AdamW(parameters, lr=rate, weight_decay=decay)
