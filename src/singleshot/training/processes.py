"""One process or many: who this process is, and the few things that all of them must agree on.

``torchrun`` starts the processes and says in the environment how many they are; without it there is one.
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

PATIENCE = timedelta(minutes=30)  # how long a process waits for one that says nothing: it may be decoding images


class ProcessLostError(RuntimeError):
    """Another process of the group has died or cannot be reached."""


@dataclass(frozen=True)
class Processes:
    """This process among all."""

    rank: int = 0
    count: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @classmethod
    def from_environment(cls, device: str) -> Processes:
        """As torchrun has set it up; one process where it has not."""
        try:
            rank, local, count = (int(os.environ.get(name, value)) for name, value in _TORCHRUN.items())
        except ValueError:
            found = {name: os.environ.get(name) for name in _TORCHRUN}
            raise ValueError(f"torchrun's environment must hold whole numbers, got {found}") from None
        return cls(rank, count, _chosen_device(device, local))

    @property
    def is_writer(self) -> bool:
        """Whether this is the one process that writes files and talks to the user."""
        return self.rank == 0

    def share_of(self, batch: int) -> slice:
        """The part of a global batch that is this process's."""
        if batch % self.count:
            raise ValueError(
                f"a batch of {batch} images cannot be shared equally by {self.count} processes; "
                f"choose a --batch-size that {self.count} divides"
            )
        size = batch // self.count
        return slice(self.rank * size, (self.rank + 1) * size)

    def any_of_us(self, here: bool) -> bool:
        """Whether it holds in at least one process; every process gets the same answer."""
        if self.count == 1:
            return here
        return bool(self.summed(torch.tensor([float(here)], device=self.device))[0] > 0)

    def summed(self, values: Tensor) -> Tensor:
        """The values added up over all processes."""
        if self.count > 1:
            with losses_of_processes_named():
                dist.all_reduce(values)
        return values

    def from_writer(self, tensor: Tensor) -> Tensor:
        """The writer's values of this tensor, in every process."""
        if self.count > 1:
            with losses_of_processes_named():
                dist.broadcast(tensor, src=0)
        return tensor

    def same_buffers(self, model: nn.Module) -> None:
        """Give every process the writer's buffers: batch norm has seen other images in each."""
        for buffer in model.buffers():
            self.from_writer(buffer)

    def wait_for_all(self) -> None:
        """Return when every process has come here."""
        self.any_of_us(False)

    def done_by_writer(self, action: Callable[[], Result]) -> Result | None:
        """What an action gives in the writer, None elsewhere; an error there is an error of every process."""
        result, caught = None, None
        if self.is_writer:
            try:
                result = action()
            except (ValueError, OSError, FolderNotUsableError) as error:
                if self.count == 1:
                    raise
                caught = error
        said = self.text_from_writer("" if caught is None else str(caught) or type(caught).__name__)
        if caught is not None:
            raise caught
        if said:
            raise ValueError(f"the first process says: {said}")
        return result

    def text_from_writer(self, text: str) -> str:
        """The writer's text, in every process."""
        if self.count == 1:
            return text
        content = torch.tensor(list(text.encode()), dtype=torch.uint8, device=self.device)
        size = self.from_writer(torch.tensor([len(content)], device=self.device))
        content = content if self.is_writer else torch.empty(int(size), dtype=torch.uint8, device=self.device)
        return bytes(self.from_writer(content).tolist()).decode()

    def wrap(self, passes: nn.Module) -> nn.Module:
        """The module with its gradients averaged over all processes."""
        if self.count == 1:
            return passes
        ids = [self.device.index] if self.device.type == "cuda" else None
        with losses_of_processes_named():
            # A dropped block takes no part in a step, and may be dropped in one process and not in another. Where none
            # is dropped it matters too: else torch would regroup the gradients after the first step, and a run resumed
            # in the middle would add them in another order.
            return DistributedDataParallel(passes, device_ids=ids, find_unused_parameters=True)


_TORCHRUN = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1}


def _chosen_device(name: str, local_rank: int) -> torch.device:
    """The device of this process: on a machine with several, each local process has its own."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        float(torch.rand(1, generator=torch.Generator(device), device=device))  # all that a run needs of a device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device={name!r} cannot be used here: {reason}; --device cpu always can") from None
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", local_rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
    return device


@contextmanager
def process_group(processes: Processes) -> Iterator[None]:
    """The connection to the other processes, for as long as it is needed."""
    if processes.count == 1:
        yield
        return
    with losses_of_processes_named():
        dist.init_process_group("nccl" if processes.device.type == "cuda" else "gloo", timeout=PATIENCE)
    try:
        yield
    finally:
        gc.collect()  # what still refers to the group, in a circle perhaps, would be torn from it
        dist.destroy_process_group()


@contextmanager
def losses_of_processes_named() -> Iterator[None]:
    """Turn the many errors by which a lost process shows itself into one that says so."""
    try:
        yield
    except dist.DistError as error:
        raise ProcessLostError(_reason(error)) from error
    except RuntimeError as error:
        if re.search(r"gloo|nccl|peer|timed out|socket|broken pipe", str(error), re.IGNORECASE):
            raise ProcessLostError(_reason(error)) from error
        raise


def _reason(error: Exception) -> str:
    """The first sentence, without the place in the library's source that it begins with."""
    return re.sub(r"^\[[^]]*\]\s*", "", str(error).splitlines()[0]).split(". ")[0]
