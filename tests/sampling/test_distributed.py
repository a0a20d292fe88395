"""DistributedDataParallel around `Sampled`: two processes have the gradients of one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

WORKER = Path(__file__).with_name("sampled_worker.py")


def test_two_processes_have_the_gradients_of_one(tmp_path: Path) -> None:
    gradients = []
    for count in (1, 2):
        file = tmp_path / f"{count}.pt"
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
        subprocess.run([*launcher, WORKER, file], check=True, capture_output=True, timeout=300)
        gradients.append(torch.load(file, weights_only=True))
    one, two = gradients
    for name, gradient in one.items():
        torch.testing.assert_close(two[name], gradient, rtol=1e-6, atol=1e-9)
        assert gradient.any()
