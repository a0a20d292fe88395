"""From a recipe to what a step computes: how many passes, which loss, and how far the passes disagreed."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from singleshot.losses import (
    ci_loss,
    cross_entropy_loss,
    entropy_ci_loss,
    focal_loss,
    label_smoothing_loss,
    vwci_loss,
)
from singleshot.sampling import sample
from singleshot.training.processes import Processes, losses_of_processes_named
from singleshot.training.recipe import Recipe
from singleshot.uncertainty import normalized_variance


@dataclass(frozen=True)
class Objective:
    """A loss over the logits (T, B, C) of T passes, and the reading of their disagreement that is shown beside it."""

    passes: int
    loss: Callable[[Tensor, Tensor], Tensor]
    measure: str

    def disagreement(self, logits: Tensor) -> Tensor | None:
        """The mean α of a batch; a single pass has none."""
        return normalized_variance(logits.detach(), measure=self.measure).mean() if len(logits) > 1 else None


def objective_of(recipe: Recipe) -> Objective:
    """What the recipe minimizes."""
    losses: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "cross_entropy": cross_entropy_loss,
        "label_smoothing": lambda logits, labels: label_smoothing_loss(
            logits, labels, label_smoothing=recipe.label_smoothing
        ),
        "ci": lambda logits, labels: ci_loss(logits, labels, beta=recipe.beta),
        "entropy_ci": lambda logits, labels: entropy_ci_loss(logits, labels, gamma=recipe.gamma),
        "focal": lambda logits, labels: focal_loss(logits, labels, gamma=recipe.focus),
        "vwci": lambda logits, labels: vwci_loss(
            logits, labels, measure=recipe.measure, differentiate_alpha=recipe.differentiate_alpha
        ),
    }
    return Objective(recipe.passes, losses[recipe.loss], recipe.measure)


PLAIN = Objective(1, cross_entropy_loss, "bhattacharyya")  # before the last share of the steps


class StochasticPasses(nn.Module):
    """A network whose forward is T passes: what DistributedDataParallel is wrapped around, so that it sees them all."""

    def __init__(self, network: nn.Module, *, memory: str, compiled: bool) -> None:
        super().__init__()
        self.network = network
        self.memory = memory
        # A compiled network is one unit: there is nothing inside it that passes could share.
        self.strategy = "loop" if compiled else "auto"
        if compiled:
            network.compile()

    def forward(self, images: Tensor, passes: int) -> Tensor:
        """Logits (T, B, C) in float32."""
        if passes == 1:
            logits: Tensor = self.network(images)[None]
        else:
            logits = sample(self.network, images, samples=passes, strategy=self.strategy, memory=self.memory)
        return logits.float()  # the loss is computed in full precision


class DivergedError(Exception):
    """The loss is no longer a number."""


@dataclass(frozen=True)
class StepResult:
    """Means over the global batch; ``alpha`` is None where there was one pass."""

    loss: float
    alpha: float | None
    accuracy: float
    stop: bool  # whether some process wants to stop


class Stepper:
    """The network, its optimizer, and how they are advanced by one batch."""

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
        passes = StochasticPasses(self.model, memory=recipe.memory, compiled=recipe.compile)
        self.passes = processes.wrap(passes)
        # Gradients of half precision are scaled up so that small ones do not vanish; others need no scaling.
        self.scaler = torch.amp.GradScaler(processes.device.type, enabled=recipe.precision == "float16")

    def advance(
        self, images: Tensor, labels: Tensor, objective: Objective, learning_rate: float, *, stop: bool = False
    ) -> StepResult:
        """One update from this process's part of the batch. A loss that is no number raises before any harm is done."""
        self.model.train()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.zero_grad(set_to_none=True)
        with losses_of_processes_named() if self.processes.count > 1 else nullcontext():
            with self._autocast():
                logits = self.passes(images, objective.passes)
            # The losses refuse logits that are not finite; here every process must hear of it before one goes on.
            is_finite = bool(torch.isfinite(logits.detach()).all())
            loss = objective.loss(logits, labels) if is_finite else logits.sum() * float("nan")
            result = self._shared_result(loss, logits, labels, objective if is_finite else None, stop)
            if not math.isfinite(result.loss):
                raise DivergedError
            self.scaler.scale(loss).backward()
        self._update()
        return result

    def _update(self) -> None:
        if self.recipe.clip_gradient is not None:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip_gradient)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def _shared_result(
        self, loss: Tensor, logits: Tensor, labels: Tensor, objective: Objective | None, stop: bool
    ) -> StepResult:
        alpha = objective.disagreement(logits) if objective is not None else None
        predicted = logits.detach().softmax(-1).mean(0).argmax(-1)
        right = (predicted == labels).float().mean()
        zero = torch.zeros((), device=loss.device)
        parts = [loss.detach(), zero if alpha is None else alpha, right, zero + float(stop)]
        means = self.processes.summed(torch.stack([part.float() for part in parts])) / self.processes.count
        of_loss, of_alpha, of_right, of_stop = means.tolist()
        return StepResult(of_loss, None if alpha is None else of_alpha, of_right, of_stop > 0)

    def _autocast(self) -> AbstractContextManager[object]:
        if self.recipe.precision == "float32":
            return nullcontext()
        return torch.autocast(self.processes.device.type, dtype=getattr(torch, self.recipe.precision))

    def disband(self) -> None:
        """Let go of the wrapper that averages gradients: while it lives, leaving its process group may abort."""
        del self.passes

    def is_finite(self) -> bool:
        """Whether every weight is a number, as it must be in a checkpoint."""
        return all(bool(torch.isfinite(value).all()) for value in self.model.state_dict().values())
