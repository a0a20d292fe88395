"""One training step over a fixed global batch, alone or under torchrun; the writer saves the gradients.

python gradient_worker.py OUTPUT LOSS          torchrun --nproc-per-node 2 gradient_worker.py OUTPUT LOSS
"""

from __future__ import annotations

import sys

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from singleshot.models import StochasticDepthBlock
from singleshot.training.processes import Processes, process_group
from singleshot.training.recipe import Recipe
from singleshot.training.step import Stepper, StochasticPasses, objective_of

ROWS, FEATURES = 12, 24


class NoiseByRow(nn.Module):
    """Dropout whose mask for a row depends on the row's number, its first feature, and not on who computes it."""

    is_noise = True

    def forward(self, x: Tensor) -> Tensor:
        kept = torch.rand(ROWS, FEATURES) < 0.6
        return x * kept[x[:, 0].long()] if self.training else x


def network() -> nn.Module:
    torch.manual_seed(0)
    branches = [nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(3)]
    blocks = [StochasticDepthBlock(branch, nn.Identity(), survival=0.5) for branch in branches]
    return nn.Sequential(NoiseByRow(), nn.Linear(FEATURES, 32), nn.Tanh(), *blocks, nn.Linear(32, 5))


def main() -> None:
    output, loss = sys.argv[1:]
    torch.set_num_threads(1)
    processes = Processes.from_environment("cpu")
    with process_group(processes):
        x = torch.randn(ROWS, FEATURES, generator=torch.Generator().manual_seed(1))
        x[:, 0] = torch.arange(ROWS)
        labels = torch.randint(0, 5, (ROWS,), generator=torch.Generator().manual_seed(2))
        recipe = Recipe(loss=loss, samples=3, channels_last=False).resolved()  # type: ignore[arg-type]
        stepper = Stepper(network(), recipe, processes)
        passes = stepper.passes if processes.count == 1 else stepper.passes.module
        assert isinstance(passes, StochasticPasses)
        passes.strategy = "loop"  # one mask per pass and row
        mine = processes.share_of(ROWS)
        torch.manual_seed(3)  # the same coins everywhere, so that one process can be compared with two
        result = stepper.advance(x[mine], labels[mine], objective_of(recipe), learning_rate=0.0)
        if processes.is_writer:
            grads = {name: p.grad for name, p in stepper.model.named_parameters() if p.grad is not None}
            numbers = torch.tensor([result.loss, result.alpha or 0.0, result.accuracy], dtype=torch.float64)
            save_file({**grads, "result": numbers}, output)


if __name__ == "__main__":
    main()
