"""One training step over a fixed global batch in each process; the main process saves the gradients."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import singleshot as ss
from singleshot.common.loss_names import LossName
from singleshot.models import StochasticDepthBlock
from singleshot.training.distributed import Processes, process_group
from singleshot.training.recipe import Recipe
from singleshot.training.step import Stepper

ROWS, FEATURES = 12, 24


class NoiseByRow(nn.Module):
    """Dropout whose mask depends on the number of a row, its first feature, and not on the process."""

    is_noise = True

    def forward(self, x: Tensor) -> Tensor:
        kept = torch.rand(ROWS, FEATURES) < 0.6
        return x * kept[x[:, 0].long()] if self.training else x


def network() -> nn.Module:
    torch.manual_seed(0)
    branches = [nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(3)]
    blocks = [StochasticDepthBlock(branch, nn.Identity(), survival=0.5) for branch in branches]
    return nn.Sequential(NoiseByRow(), nn.Linear(FEATURES, 32), nn.Tanh(), *blocks, nn.Linear(32, 5))


def save_gradients(folder: Path) -> None:
    torch.set_num_threads(1)
    processes = Processes.from_environment("cpu")
    with process_group(processes):
        for loss in get_args(LossName):
            save_gradients_of(Recipe(loss=loss, samples=3), folder / loss, processes)
        save_gradients_of(Recipe(loss="vwci", samples=3, gradient_passes=1), folder / "one gradient pass", processes)
        save_uneven(folder / "uneven", processes, first=5)
        save_uneven(folder / "empty", processes, first=0)


def save_uneven(file: Path, processes: Processes, first: int) -> None:
    """Save a loss and a γ of 12 examples, of which the first process has a few or none, with the mean gradient."""
    mine = slice(0, ROWS) if processes.count == 1 else [slice(0, first), slice(first, ROWS)][processes.rank]
    generator = torch.Generator().manual_seed(4)
    logits = torch.randn(2, ROWS, 5, dtype=torch.float64, generator=generator).requires_grad_()
    labels = torch.randint(0, 5, (ROWS,), generator=generator)
    loss = ss.mmce_loss(*ss.gather_batch(logits[:, mine], labels[mine]))
    (gradient,) = torch.autograd.grad(loss, logits)
    gamma = ss.AdaptiveGamma(bins=3)
    gamma.update(logits=logits[0, mine], labels=labels[mine])
    mean = processes.sum(gradient.clone()) / processes.count
    if processes.is_main:
        save_file({"result": loss.detach(), "1.weight": mean, "gammas": gamma.gammas}, file)


def save_gradients_of(recipe: Recipe, file: Path, processes: Processes) -> None:
    x = torch.randn(ROWS, FEATURES, generator=torch.Generator().manual_seed(1))
    x[:, 0] = torch.arange(ROWS)
    labels = torch.randint(0, 5, (ROWS,), generator=torch.Generator().manual_seed(2))
    stepper = Stepper(network(), replace(recipe, channels_last=False).resolved(), processes)
    mine = processes.batch_slice(ROWS)
    torch.manual_seed(3)  # the same blocks are dropped in every process
    result = stepper.advance(x[mine], labels[mine], learning_rate=0.0)
    if processes.is_main:
        grads = {name: p.grad for name, p in stepper.model.named_parameters() if p.grad is not None}
        numbers = torch.tensor([result.loss, result.alpha or 0.0, result.accuracy], dtype=torch.float64)
        file.parent.mkdir(exist_ok=True)
        save_file({**grads, "result": numbers}, file)
    stepper.release()
