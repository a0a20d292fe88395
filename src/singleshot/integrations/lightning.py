"""Lightning: the steps of a ``LightningModule`` that trains with the VWCI loss and logs its calibration."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch import Tensor

from singleshot.losses import vwci_loss
from singleshot.metrics import Calibration
from singleshot.sampling import sample
from singleshot.sampling.sampler import find_logits
from singleshot.training.loaders import read_batch
from singleshot.uncertainty import DisagreementMeasure

IGNORED = -100  # as in `vwci_loss`


class VWCISteps:
    """A mixin before ``LightningModule``; write ``forward``, which returns logits, and ``configure_optimizers``.

    It logs ``train_loss``, and for validation and test ``val_`` and ``test_`` with every metric of
    `singleshot.Calibration`: ``val_accuracy``, ``val_ece``, ``val_nll`` and so on. Batches are (inputs, labels), or
    dicts with ``labels``; a label of -100 is ignored. Set the attributes to change the loss.
    """

    samples: int = 5
    gradient_passes: int | None = None
    measure: str | DisagreementMeasure = "bhattacharyya"

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Return the VWCI loss of T passes."""
        module: Any = self
        given = read_batch(batch, module.device)
        passes = sample(module, *given.args, samples=self.samples, gradient_passes=self.gradient_passes, **given.kwargs)
        loss = vwci_loss(passes, given.labels, measure=self.measure, ignore_index=IGNORED)
        module.log("train_loss", loss)
        return loss

    def on_validation_epoch_start(self) -> None:
        """Start a new state."""
        self._calibration = Calibration()

    on_test_epoch_start = on_validation_epoch_start

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        """Add the logits of one ordinary forward pass."""
        module: Any = self
        given = read_batch(batch, module.device)
        logits = find_logits(module(*given.args, **given.kwargs))
        self._calibration.update(logits=logits, labels=given.labels, ignore_index=IGNORED)

    test_step = validation_step

    def on_validation_epoch_end(self) -> None:
        """Log the metrics over all processes."""
        self._log("val")

    def on_test_epoch_end(self) -> None:
        """Log the metrics over all processes."""
        self._log("test")

    def _log(self, prefix: str) -> None:
        module: Any = self
        if dist.is_available() and dist.is_initialized():
            self._calibration.all_reduce()
        module.log_dict({f"{prefix}_{name}": value for name, value in self._calibration.compute().metrics().items()})
