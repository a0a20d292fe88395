"""One training step: stochastic passes, loss, gradients and optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, SupportsFloat

import torch
from torch import Tensor, nn

from singleshot.common.checks import values_can_be_read
from singleshot.losses import AdaptiveGamma, create_loss, gather_batch
from singleshot.losses.registry import LOSSES
from singleshot.losses.vwci import vwci_loss_and_alpha
from singleshot.sampling import sample
from singleshot.self_tuning import SelfTunedStrength
from singleshot.training.distributed import Processes, lost_process_errors
from singleshot.training.recipe import STRENGTHS, Recipe
from singleshot.uncertainty import DisagreementMeasure, normalized_variance, resolve_measure

CROSS_ENTROPY = Recipe(loss="cross_entropy")  # loss and passes of the steps before the last share


def initial_strength(recipe: Recipe) -> SelfTunedStrength | AdaptiveGamma | None:
    """Return a new strength, to be tuned during training; None if the recipe fixes it."""
    if not recipe.is_tuned:
        return None
    return AdaptiveGamma() if recipe.loss == AdaptiveGamma.loss else SelfTunedStrength(recipe.loss)


def loss_and_alpha(
    logits: Tensor, labels: Tensor, recipe: Recipe, strength: SupportsFloat | None = None
) -> tuple[Tensor, Tensor | None]:
    """Return the loss of logits (T, B, C) and the detached disagreement (B,), which is None for a single pass.

    ``strength`` replaces that of the recipe.
    """
    given: Any = strength
    if strength is None and recipe.loss in STRENGTHS:
        given = getattr(recipe, STRENGTHS[recipe.loss])
    if recipe.loss == "vwci":
        return vwci_loss_and_alpha(
            logits,
            labels,
            measure=_ALPHAS[recipe.alpha](resolve_measure(recipe.measure)),
            strength=given,
            differentiate_alpha=recipe.differentiate_alpha,
        )
    alpha = normalized_variance(logits.detach(), measure=recipe.measure) if len(logits) > 1 else None
    return create_loss(recipe.loss, given)(logits, labels), alpha


def _permuted(measure: DisagreementMeasure) -> DisagreementMeasure:
    """The weights of other examples of the batch, drawn from torch's generator."""

    def permuted(log_probs: Tensor) -> Tensor:
        alpha = measure(log_probs)
        return alpha[torch.randperm(len(alpha), device=alpha.device)]

    return permuted


def _batch_mean(measure: DisagreementMeasure) -> DisagreementMeasure:
    def mean(log_probs: Tensor) -> Tensor:
        alpha = measure(log_probs)
        return alpha.mean().expand_as(alpha)

    return mean


def _scaled(measure: DisagreementMeasure) -> DisagreementMeasure:
    """The measure times the factor that gives it the batch mean of total variation, at most 1."""

    def scaled(log_probs: Tensor) -> Tensor:
        alpha = measure(log_probs)
        wanted = resolve_measure("total_variation")(log_probs).mean()
        factor = wanted / alpha.mean().clamp(min=torch.finfo(alpha.dtype).tiny)
        return (factor * alpha).clamp(max=1)

    return scaled


_ALPHAS: dict[str, Callable[[DisagreementMeasure], DisagreementMeasure]] = {
    "example": lambda measure: measure,
    "permuted": _permuted,
    "batch_mean": _batch_mean,
    "scaled": _scaled,
}


class StochasticPasses(nn.Module):
    """A network whose forward is T passes. DistributedDataParallel wraps this module, so that it sees all of them."""

    def __init__(self, network: nn.Module, recipe: Recipe) -> None:
        super().__init__()
        self.network = network
        self.recipe = recipe
        if recipe.compile:
            network.compile()

    def forward(self, images: Tensor, passes: int) -> Tensor:
        """Return the logits (T, B, C) in float32."""
        if passes == 1:
            logits: Tensor = self.network(images)[None]
        else:
            carrying, memory = self.recipe.gradient_passes, self.recipe.memory
            logits = sample(self.network, images, samples=passes, gradient_passes=carrying, memory=memory)
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
        self.network = processes.wrap(StochasticPasses(self.model, recipe))
        # Scales up float16 gradients so that small ones do not underflow.
        self.scaler = torch.amp.GradScaler(processes.device.type, enabled=recipe.precision == "float16")

    def advance(
        self,
        images: Tensor,
        labels: Tensor,
        learning_rate: float,
        *,
        cross_entropy: bool = False,
        strength: SupportsFloat | None = None,
        stop: bool = False,
    ) -> StepResult:
        """Update the weights from this process's part of a batch, with the recipe's loss or cross-entropy.

        ``strength`` replaces the recipe's strength of the loss.
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
            if self.processes.count > 1 and LOSSES[recipe.loss].of_batch:
                logits, labels = gather_batch(logits, labels)
            is_finite = torch.isfinite(logits.detach()).all()
            if values_can_be_read(is_finite) and not is_finite:
                loss, alpha = logits.sum() * math.nan, None  # the losses would raise in this process only
            else:
                loss, alpha = loss_and_alpha(logits, labels, recipe, None if cross_entropy else strength)
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
