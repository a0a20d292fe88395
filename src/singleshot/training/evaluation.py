"""One quiet pass over images that were not trained on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from singleshot.data import Images
from singleshot.data.augmentation import Normalization
from singleshot.metrics import Calibration
from singleshot.training.processes import Processes, losses_of_processes_named

BATCH = 128  # images at a time: no more memory than a training step takes


@contextmanager
def quiet(model: nn.Module) -> Iterator[None]:
    """Within it the model is in evaluation mode and records no gradients."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


def evaluate(
    model: nn.Module,
    part: Images,
    positions: Tensor,
    normalization: Normalization,
    processes: Processes,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    on_logits: Callable[[Tensor, Tensor], None] = lambda logits, labels: None,
) -> Calibration | None:
    """The calibration over these images, each process taking its share; None when asked to stop on the way."""
    calibration = Calibration(bins=20)
    mine = positions[processes.rank :: processes.count]
    most = math.ceil(len(positions) / processes.count)  # the same number of rounds in every process
    processes.same_buffers(model)  # or each would judge by statistics of its own
    with quiet(model):
        for start in range(0, most, BATCH):
            if processes.any_of_us(should_stop()):
                return None
            index = mine[start : start + BATCH]
            if len(index):
                logits = model(normalization(part.images[index].to(processes.device))).float()
                calibration.update(logits=logits, labels=part.labels[index].to(processes.device))
                on_logits(logits, part.labels[index])
    if processes.count == 1:
        return calibration
    with losses_of_processes_named():
        return calibration.all_reduce()
