"""Calibration of a model that is trained already: a few last epochs with the VWCI loss (the paper's VWCI*)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn

from singleshot.common.checks import check_loader
from singleshot.evaluation.evaluation import BaselineComparison, compare
from singleshot.evaluation.summary import comparison_lines, table_lines
from singleshot.integrations.training_loop import MakeOptimizer, Training, adamw
from singleshot.losses import VWCILoss
from singleshot.reporting.one_call import ModelEvaluation, evaluate
from singleshot.sampling.arguments import Extract
from singleshot.uncertainty import DisagreementMeasure


@dataclass(frozen=True, eq=False, repr=False)
class Finetuned:
    """The evaluations before and after, to be printed; ``report({"before": .before, "after": .after}, ...)``."""

    before: ModelEvaluation
    after: ModelEvaluation

    @property
    def comparison(self) -> BaselineComparison:
        """The differences with intervals, after minus before."""
        return compare(self.after, self.before, replicates=None, bins=20)

    def __repr__(self) -> str:
        return "\n".join([*table_lines([self.before, self.after]), "", *comparison_lines(self.comparison)])


def finetune(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    held_out: Iterable[Any],
    epochs: int = 5,
    learning_rate: float = 1e-4,
    make_optimizer: MakeOptimizer | None = None,
    samples: int = 5,
    gradient_passes: int | None = None,
    measure: str | DisagreementMeasure = "bhattacharyya",
    logits: Extract | None = None,
    progress: bool = True,
) -> Finetuned:
    """Train a trained model for a few more epochs with the VWCI loss, in place, and evaluate it before and after.

    Args:
        model: a trained classifier with noise; see `singleshot.add_noise` if it has none. Its modes are restored.
        loader: the training data: batches (inputs, labels), or dicts with ``labels``.
        held_out: data in the same form that the model was not trained on, for the evaluations, in a fixed order. It is
            read twice. Labels of -100 are ignored, as in training.
        epochs: the paper spends at most a fifth of the whole training.
        learning_rate: of AdamW; it falls linearly to 0.
        make_optimizer: another optimizer: a function of the list of parameters.
        samples: stochastic passes per step.
        gradient_passes: how many of them carry gradients, see `singleshot.sample`.
        measure: the disagreement measure, see `singleshot.vwci_loss`.
        logits: finds the logits in the output of the model, as in `singleshot.sample`.
        progress: show progress bars, in a terminal or a notebook.

    >>> import torch
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))
    >>> inputs = torch.randn(200, 2)
    >>> data = TensorDataset(inputs, (inputs[:, 0] > 0).long())
    >>> done = finetune(model, DataLoader(data, batch_size=50), held_out=DataLoader(data, batch_size=100), epochs=2)
    >>> sorted(done.after.metrics())[:3]
    ['accuracy', 'adaptive_ece', 'aurc']
    """
    check_loader("held_out", held_out)
    if isinstance(held_out, Iterator):
        raise TypeError(f"held_out is read twice, got a {type(held_out).__name__}, which can be read once; give a list")
    loss = VWCILoss(measure=measure)
    training = Training(
        model,
        loader,
        epochs=epochs,
        make_optimizer=make_optimizer or adamw(learning_rate, weight_decay=0.0),
        loss=loss,
        samples=samples,
        gradient_passes=gradient_passes,
        logits=logits,
        title="Epochs" if progress else None,
    )
    evaluated = partial(evaluate, model, held_out, logits=logits, ignore_index=loss.ignore_index, progress=progress)
    before = evaluated(name="before")
    modes = [(module, module.training) for module in model.modules()]
    try:
        training.run()
    finally:
        for module, mode in modes:
            module.training = mode
    return Finetuned(before, evaluated(name="after"))
