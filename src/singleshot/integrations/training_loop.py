"""A plain training loop over the user's own data loader, for what has no trainer of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from typing import Any, Literal

import torch
from torch import Tensor, nn

from singleshot.common.checks import check_choice, check_range, check_size
from singleshot.common.progress import tracked
from singleshot.losses import cross_entropy_loss, vwci_loss
from singleshot.sampling import sample
from singleshot.sampling.arguments import Extract
from singleshot.sampling.sampler import find_logits
from singleshot.training.loaders import Batch, read_batch
from singleshot.uncertainty import DisagreementMeasure, resolve_measure

LossName = Literal["vwci", "cross_entropy"]
LOSSES = ("vwci", "cross_entropy")
MakeOptimizer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]


def train_epochs(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    epochs: int,
    make_optimizer: MakeOptimizer,
    loss: LossName = "vwci",
    samples: int = 5,
    gradient_passes: int | None = None,
    measure: str | DisagreementMeasure = "bhattacharyya",
    logits: Extract | None = None,
    title: str | None = None,
) -> None:
    """Train a model in place, with a learning rate that falls linearly to 0. The title is that of a progress bar.

    With a loader that has no length, the rate falls after each epoch.
    """
    check_size("epochs", epochs, least=1)
    check_choice("loss", loss, LOSSES)
    resolve_measure(measure)
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    optimizer = make_optimizer([parameter for parameter in model.parameters() if parameter.requires_grad])
    base_rates = [group["lr"] for group in optimizer.param_groups]

    def loss_of(batch: Batch) -> Tensor:
        if loss == "cross_entropy":
            output = model(*batch.args, **batch.kwargs)
            return cross_entropy_loss((logits or find_logits)(output), batch.labels)
        passes = sample(
            model, *batch.args, samples=samples, gradient_passes=gradient_passes, logits=logits, **batch.kwargs
        )
        return vwci_loss(passes, batch.labels, measure=measure)

    steps_per_epoch = len(loader) if isinstance(loader, Sized) else None
    for epoch in range(epochs) if title is None else tracked(range(epochs), title):
        model.train()
        steps = 0
        for steps, given in enumerate(loader, start=1):
            share = 0.0 if steps_per_epoch is None else min((steps - 1) / steps_per_epoch, 1)
            done = (epoch + share) / epochs
            for group, rate in zip(optimizer.param_groups, base_rates, strict=True):
                group["lr"] = rate * (1 - done)
            optimizer.zero_grad()
            loss_of(read_batch(given, device)).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        if not steps:
            raise ValueError("the loader has no batches; a generator has them once, so give a loader or a list")


def adamw(learning_rate: float, weight_decay: float) -> MakeOptimizer:
    """Return a function that makes an AdamW optimizer for some parameters."""
    rate, decay = (
        check_range("learning_rate", learning_rate, "(0, inf)"),
        check_range("weight_decay", weight_decay, "[0, inf)"),
    )
    return lambda parameters: torch.optim.AdamW(parameters, lr=rate, weight_decay=decay)
