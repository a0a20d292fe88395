"""One training step: stochastic passes, loss, gradients and optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from singleshot.common.checks import values_can_be_read
from singleshot.losses import ci_loss, cross_entropy_loss, entropy_ci_loss, focal_loss, label_smoothing_loss
from singleshot.losses.vwci import vwci_loss_and_alpha
from singleshot.sampling import sample
from singleshot.training.distributed import Processes, lost_process_errors
from singleshot.training.recipe import Recipe
from singleshot.uncertainty import normalized_variance

CROSS_ENTROPY = Recipe(loss="cross_entropy")  # loss and passes of the steps before the last share

_LOSSES: dict[str, Callable[[Tensor, Tensor, Recipe], Tensor]] = {
    "cross_entropy": lambda z, y, recipe: cross_entropy_loss(z, y),
    "label_smoothing": lambda z, y, recipe: label_smoothing_loss(z, y, label_smoothing=recipe.label_smoothing),
    "ci": lambda z, y, recipe: ci_loss(z, y, beta=recipe.beta),
    "entropy_ci": lambda z, y, recipe: entropy_ci_loss(z, y, gamma=recipe.gamma),
    "focal": lambda z, y, recipe: focal_loss(z, y, gamma=recipe.focus),
}


def loss_and_alpha(logits: Tensor, labels: Tensor, recipe: Recipe) -> tuple[Tensor, Tensor | None]:
    """Return the loss of logits (T, B, C) and the detached disagreement (B,), which is None for a single pass."""
    measure = recipe.measure
    if recipe.loss == "vwci":
        return vwci_loss_and_alpha(logits, labels, measure=measure, differentiate_alpha=recipe.differentiate_alpha)
    alpha = normalized_variance(logits.detach(), measure=measure) if len(logits) > 1 else None
    return _LOSSES[recipe.loss](logits, labels, recipe), alpha


class StochasticPasses(nn.Module):
    """A network whose forward is T passes. DistributedDataParallel wraps this module, so that it sees all of them."""

    def __init__(self, network: nn.Module, *, memory: str, compiled: bool) -> None:
        super().__init__()
        self.network = network
        self.memory = memory
        if compiled:
            network.compile()

    def forward(self, images: Tensor, passes: int) -> Tensor:
        """Return the logits (T, B, C) in float32."""
        if passes == 1:
            logits: Tensor = self.network(images)[None]
        else:
            logits = sample(self.network, images, samples=passes, memory=self.memory)
        return logits.float()


class DivergedError(Exception):
    """Logits, loss or weights are no longer finite."""


@dataclass(frozen=True)
class StepResult:
    """Means over the global batch; ``alpha`` is None for a single pass."""

    loss: float
    alpha: float | None
    accuracy: float
    stop: bool  # whether a process has received a signal


class Stepper:
    """The network and its optimizer."""

    def __init__(self, model: nn.Module, recipe: Recipe, processes: Processes) -> None:
        memory_format = torch.channels_last if recipe.channels_last else torch.contiguous_format
        self.model = model.to(processes.device).to(memory_format=memory_format)  # type: ignore[call-overload]
        self.optimizer = torch.optim.SGD(
            self.model.parameters(),
            lr=recipe.learning_rate,
            momentum=recipe.momentum,
            weight_decay=recipe.weight_decay,
        )
        self.recipe, self.processes = recipe, processes
        self.network = processes.wrap(StochasticPasses(self.model, memory=recipe.memory, compiled=recipe.compile))
        # Scales up float16 gradients so that small ones do not underflow.
        self.scaler = torch.amp.GradScaler(processes.device.type, enabled=recipe.precision == "float16")

    def advance(
        self,
        images: Tensor,
        labels: Tensor,
        learning_rate: float,
        *,
        cross_entropy: bool = False,
        stop: bool = False,
    ) -> StepResult:
        """Update the weights from this process's part of a batch, with the recipe's loss or cross-entropy.

        Raise `DivergedError` in every process, before the update, if logits or loss are not finite in one of them.
        """
        recipe = CROSS_ENTROPY if cross_entropy else self.recipe
        self.model.train()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.zero_grad(set_to_none=True)
        with lost_process_errors() if self.processes.count > 1 else nullcontext():
            with self._autocast():
                logits = self.network(images, recipe.passes)
            is_finite = torch.isfinite(logits.detach()).all()
            if values_can_be_read(is_finite) and not is_finite:
                loss, alpha = logits.sum() * math.nan, None  # the losses would raise in this process only
            else:
                loss, alpha = loss_and_alpha(logits, labels, recipe)
            predicted = logits.detach().softmax(-1).mean(0).argmax(-1)
            result = self._mean_result(
                torch.where(is_finite, loss.detach(), math.nan),
                alpha,
                accuracy=(predicted == labels).float().mean(),
                stop=stop,
            )
            if not math.isfinite(result.loss):
                raise DivergedError
            self.scaler.scale(loss).backward()
        if self.recipe.clip_gradient is not None:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip_gradient)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return result

    def _mean_result(self, loss: Tensor, alpha: Tensor | None, *, accuracy: Tensor, stop: bool) -> StepResult:
        """Average over the processes and read all numbers at once: the only device synchronisation of a step."""
        stopped = torch.full((), float(stop), device=loss.device)
        mean_alpha = torch.zeros_like(stopped) if alpha is None else alpha.mean()
        values = torch.stack([value.float() for value in (loss, mean_alpha, accuracy, stopped)])
        means = (self.processes.sum(values) / self.processes.count).tolist()
        return StepResult(means[0], None if alpha is None else means[1], means[2], means[3] > 0)

    def _autocast(self) -> AbstractContextManager[object]:
        if self.recipe.precision == "float32":
            return nullcontext()
        return torch.autocast(self.processes.device.type, dtype=getattr(torch, self.recipe.precision))

    def release(self) -> None:
        """Delete the wrapper that averages gradients: leaving the process group while it exists may abort."""
        del self.network

    def is_finite(self) -> bool:
        """Whether all weights and buffers are finite."""
        return bool(torch.stack([torch.isfinite(value).all() for value in self.model.state_dict().values()]).all())
