"""One step of DistributedDataParallel around `Sampled`; the first process saves the gradients."""

from __future__ import annotations

import sys

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import singleshot as ss

ROWS = 8


class NoiseByRow(nn.Module):
    """Dropout whose mask depends on the number of a row, its first feature, and not on the process."""

    is_noise = True

    def forward(self, x: Tensor) -> Tensor:
        return x * (torch.rand(ROWS, x.shape[1]) < 0.6)[x[:, 0].long()]


def main(file: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(NoiseByRow(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    x = torch.randn(ROWS, 6, dtype=torch.float64)
    x[:, 0] = torch.arange(ROWS)
    labels = torch.arange(ROWS) % 3
    share = slice(
        dist.get_rank() * ROWS // dist.get_world_size(), (dist.get_rank() + 1) * ROWS // dist.get_world_size()
    )
    wrapped = nn.parallel.DistributedDataParallel(ss.Sampled(model, samples=3))
    torch.manual_seed(1)
    ss.vwci_loss(wrapped(x[share]), labels[share]).backward()  # type: ignore[no-untyped-call]
    if dist.get_world_size() > 1:
        with pytest.raises(ValueError, match="wrapped in DistributedDataParallel"):
            ss.sample(wrapped.module, x[share])
        with pytest.raises(ValueError, match="DistributedDataParallel"):
            ss.sample(wrapped, x[share])
    if dist.get_rank() == 0:
        torch.save({name: parameter.grad for name, parameter in model.named_parameters()}, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
