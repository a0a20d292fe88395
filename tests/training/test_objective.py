from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from singleshot import losses
from singleshot.models import create_model
from singleshot.training.recipe import Recipe
from singleshot.training.step import PLAIN, StochasticPasses, objective_of
from singleshot.uncertainty import normalized_variance

Loss = Callable[[Tensor, Tensor], Tensor]
# Fields of a recipe beside the loss it must give, each with numbers that are not the defaults.
LOSSES: list[tuple[dict[str, Any], Loss]] = [
    ({"loss": "cross_entropy"}, losses.cross_entropy_loss),
    (
        {"loss": "label_smoothing", "label_smoothing": 0.3},
        lambda z, y: losses.label_smoothing_loss(z, y, label_smoothing=0.3),
    ),
    ({"loss": "ci", "beta": 0.01}, lambda z, y: losses.ci_loss(z, y, beta=0.01)),
    ({"loss": "entropy_ci", "gamma": 0.7}, lambda z, y: losses.entropy_ci_loss(z, y, gamma=0.7)),
    ({"loss": "focal", "focus": 2.0}, lambda z, y: losses.focal_loss(z, y, gamma=2.0)),
    ({"loss": "vwci"}, losses.vwci_loss),
    (
        {"loss": "vwci", "measure": "hellinger", "differentiate_alpha": True},
        lambda z, y: losses.vwci_loss(z, y, measure="hellinger", differentiate_alpha=True),
    ),
]


def batch(passes: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(passes, 7, 4, generator=generator, dtype=torch.float64)
    return logits.requires_grad_(), torch.arange(7) % 4


@pytest.mark.parametrize(("values", "expected"), LOSSES)
def test_a_recipe_gives_the_loss_it_names_with_its_numbers(values: dict[str, Any], expected: Loss) -> None:
    for samples in (3, None):
        objective = objective_of(Recipe(**values, samples=samples).resolved())
        assert objective.passes == (samples or (5 if values["loss"] == "vwci" else 1))
        logits, labels = batch(objective.passes)
        found, wanted = objective.loss(logits, labels), expected(logits, labels)
        assert found.item() == wanted.item()
        assert torch.equal(torch.autograd.grad(found, logits)[0], torch.autograd.grad(wanted, logits)[0])


@pytest.mark.parametrize("measure", ["bhattacharyya", "total_variation"])
def test_the_disagreement_that_is_shown_is_the_one_that_is_weighed_by(measure: Any) -> None:
    objective = objective_of(Recipe(loss="vwci", measure=measure).resolved())
    logits, _ = batch(5)
    shown = objective.disagreement(logits)
    assert shown is not None
    assert not shown.requires_grad
    assert shown.item() == pytest.approx(normalized_variance(logits.detach(), measure=measure).mean().item())


def test_a_single_pass_disagrees_with_nobody() -> None:
    assert objective_of(Recipe(loss="ci").resolved()).disagreement(batch(1)[0]) is None
    assert PLAIN.passes == 1
    logits, labels = batch(1)
    assert PLAIN.loss(logits, labels).item() == pytest.approx(nn.functional.cross_entropy(logits[0], labels).item())


@pytest.mark.parametrize("memory", ["normal", "low"])
@pytest.mark.parametrize("passes", [1, 3])
def test_the_passes_of_a_network_are_float32_and_reach_its_weights(passes: int, memory: str) -> None:
    torch.manual_seed(0)
    network = create_model("vgg16", num_classes=4, in_channels=1, width=0.03125)
    images, labels = torch.randn(6, 1, 32, 32), torch.arange(6) % 4
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = StochasticPasses(network, memory=memory, compiled=False)(images, passes)
    assert logits.shape == (passes, 6, 4)
    assert logits.dtype == torch.float32
    objective = objective_of(Recipe(loss="vwci" if passes > 1 else "ci", samples=passes).resolved())
    gradients = torch.autograd.grad(objective.loss(logits, labels), list(network.parameters()))
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)
    assert any(bool(gradient.any()) for gradient in gradients)
    if passes > 1:
        assert not torch.equal(logits[0], logits[1])  # dropout is on
