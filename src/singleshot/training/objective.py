"""From a recipe to what a step computes: how many passes, which loss, and how far the passes disagreed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
from singleshot.training.recipe import Recipe
from singleshot.uncertainty import normalized_variance


@dataclass(frozen=True)
class Objective:
    """A loss over the logits (T, B, C) of T passes, and the reading of their disagreement that is shown beside it."""

    passes: int
    loss: Callable[[Tensor, Tensor], Tensor]
    variance: str

    def disagreement(self, logits: Tensor) -> Tensor | None:
        """The mean α of a batch; a single pass has none."""
        return normalized_variance(logits.detach(), kind=self.variance).mean() if len(logits) > 1 else None


def objective_of(recipe: Recipe) -> Objective:
    """What the recipe minimizes."""
    losses: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "cross_entropy": cross_entropy_loss,
        "label_smoothing": lambda logits, labels: label_smoothing_loss(logits, labels, epsilon=recipe.epsilon),
        "ci": lambda logits, labels: ci_loss(logits, labels, beta=recipe.beta),
        "entropy_ci": lambda logits, labels: entropy_ci_loss(logits, labels, gamma=recipe.gamma),
        "focal": lambda logits, labels: focal_loss(logits, labels, gamma=recipe.focus),
        "vwci": lambda logits, labels: vwci_loss(
            logits, labels, variance=recipe.variance, differentiate_alpha=recipe.differentiate_alpha
        ),
    }
    return Objective(recipe.passes, losses[recipe.loss], recipe.variance)


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
