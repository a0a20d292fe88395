"""Rank, device and collective operations of the training processes.

``torchrun`` starts the processes and sets their environment; without it there is one process.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from singleshot.common.files import FolderNotUsableError

Result = TypeVar("Result")

TIMEOUT = timedelta(minutes=30)  # of a collective operation: another process may still be decoding images


class ProcessLostError(RuntimeError):
    """Another process of the group has died or cannot be reached."""


@dataclass(frozen=True)
class Processes:
    """The rank and device of this process, and the number of processes."""

    rank: int = 0
    count: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @classmethod
    def from_environment(cls, device: str) -> Processes:
        """Read rank and world size as torchrun sets them."""
        return cls(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")), select_device(device))

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def batch_slice(self, batch: int) -> slice:
        """Return this process's part of a global batch."""
        if batch % self.count:
            raise ValueError(
                f"a batch of {batch} images cannot be divided equally among {self.count} processes; "
                f"choose a --batch-size divisible by {self.count}"
            )
        size = batch // self.count
        return slice(self.rank * size, (self.rank + 1) * size)

    def any(self, value: bool) -> bool:
        """Whether the value is true in at least one process."""
        return value if self.count == 1 else bool(self.sum(torch.tensor([float(value)], device=self.device))[0] > 0)

    def sum(self, values: Tensor) -> Tensor:
        """Sum a tensor over all processes, in place."""
        if self.count > 1:
            with lost_process_errors():
                dist.all_reduce(values)
        return values

    def broadcast(self, tensor: Tensor) -> Tensor:
        """Copy the main process's values of a tensor to every process, in place."""
        if self.count > 1:
            with lost_process_errors():
                dist.broadcast(tensor, src=0)
        return tensor

    def broadcast_text(self, text: str) -> str:
        """Return the main process's text in every process."""
        if self.count == 1:
            return text
        content = torch.tensor(list(text.encode()), dtype=torch.uint8, device=self.device)
        size = self.broadcast(torch.tensor([len(content)], device=self.device))
        content = content if self.is_main else torch.empty(int(size), dtype=torch.uint8, device=self.device)
        return bytes(self.broadcast(content).tolist()).decode()

    def barrier(self) -> None:
        """Wait until every process has reached this point."""
        self.any(False)

    def on_main(self, action: Callable[[], Result]) -> Result | None:
        """Return the result of an action in the main process, None elsewhere; its errors are raised everywhere."""
        result, caught = None, None
        if self.is_main:
            try:
                result = action()
            except (ValueError, OSError, FolderNotUsableError) as error:
                caught = error
        message = self.broadcast_text("" if caught is None else str(caught) or type(caught).__name__)
        if caught is not None:
            raise caught
        if message:
            raise ValueError(f"error in the main process: {message}")
        return result

    def wrap(self, module: nn.Module) -> nn.Module:
        """Average the module's gradients over all processes."""
        if self.count == 1:
            return module
        ids = [self.device.index] if self.device.type == "cuda" else None
        with lost_process_errors():
            # A block may be dropped in one process and not in another. Networks without such blocks need
            # find_unused_parameters too: otherwise torch regroups the gradients after the first step, and a resumed
            # run would add them in another order.
            return DistributedDataParallel(module, device_ids=ids, find_unused_parameters=True)


def select_device(name: str) -> torch.device:
    """Return a usable device; local processes on a machine with several GPUs get one each."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        float(torch.rand(1, generator=torch.Generator(device), device=device))  # check that the device works
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device={name!r} is not available: {reason}; use --device cpu") from None
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    return device


@contextmanager
def process_group(processes: Processes) -> Iterator[None]:
    """Connect the processes within the block."""
    if processes.count == 1:
        yield
        return
    with lost_process_errors():
        dist.init_process_group("nccl" if processes.device.type == "cuda" else "gloo", timeout=TIMEOUT)
    try:
        yield
    finally:
        gc.collect()  # destroy objects that still refer to the group, such as those in reference cycles
        dist.destroy_process_group()


@contextmanager
def lost_process_errors() -> Iterator[None]:
    """Raise `ProcessLostError` for the various errors that torch raises when another process is lost."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, dist.DistError) or re.search(_CONNECTION_ERROR, str(error), re.IGNORECASE):
            # The first sentence, without the source location it starts with.
            reason = re.sub(r"^\[[^]]*\]\s*", "", str(error).splitlines()[0]).split(". ")[0]
            raise ProcessLostError(reason) from error
        raise


_CONNECTION_ERROR = r"gloo|nccl|peer|timed out|socket|broken pipe"
