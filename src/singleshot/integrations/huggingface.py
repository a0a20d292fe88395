"""Hugging Face: a Trainer whose training steps use the VWCI loss, and calibration metrics of its evaluations."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import Trainer

from singleshot.common.checks import as_tensor, check_size
from singleshot.losses import vwci_loss
from singleshot.metrics import Calibration
from singleshot.sampling import sample
from singleshot.uncertainty import DisagreementMeasure, resolve_measure

IGNORED = -100
PER_TOKEN = ("ForTokenClassification", "ForMaskedLM")  # losses of transformers that compare each token with its label


class VWCITrainer(Trainer):
    """The Trainer of transformers, with the VWCI loss in training and everything else as it is.

    The model needs dropout, as most of them have, or `singleshot.add_noise`. It classifies whole sequences or images,
    with one label or several, or the tokens of a sequence, where a label of -100 is ignored. Evaluation and prediction
    are one ordinary forward pass. It trains in one process: what wraps the model, such as DistributedDataParallel,
    would be bypassed, and `singleshot.sample` refuses it.

    Args:
        *args: of the Trainer.
        samples: stochastic passes per step.
        gradient_passes: how many of them carry gradients, see `singleshot.sample`.
        measure: the disagreement measure, see `singleshot.vwci_loss`.
        **kwargs: of the Trainer.
    """

    def __init__(
        self,
        *args: Any,
        samples: int = 5,
        gradient_passes: int | None = None,
        measure: str | DisagreementMeasure = "bhattacharyya",
        **kwargs: Any,
    ) -> None:
        self.samples = check_size("samples", samples, least=2)
        self.gradient_passes = gradient_passes
        self.measure = resolve_measure(measure)
        super().__init__(*args, **kwargs)
        if self.args.label_smoothing_factor or self.compute_loss_func is not None:
            raise ValueError(
                "VWCITrainer has its own loss: leave out label_smoothing_factor and compute_loss_func, or use Trainer"
            )
        # The loss is a mean over the batch: the Trainer must divide it by the steps of gradient accumulation.
        self.model_accepts_loss_kwargs = False

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, **kwargs: Any
    ) -> Tensor | tuple[Tensor, Any]:
        """Return the VWCI loss of T passes in training, the loss of the model in evaluation."""
        if not model.training or return_outputs:
            found: Tensor | tuple[Tensor, Any] = super().compute_loss(model, inputs, return_outputs, **kwargs)
            return found
        if "labels" not in inputs:
            raise ValueError(f"the batch must have labels, got {', '.join(inputs)}")
        rest = {name: value for name, value in inputs.items() if name != "labels"}
        passes = sample(model, samples=self.samples, gradient_passes=self.gradient_passes, **rest)
        labels = inputs["labels"]
        if getattr(getattr(model, "config", None), "problem_type", None) == "multi_label_classification":
            passes, labels = passes.unsqueeze(-2), labels.unsqueeze(-2)  # (T, B, 1, L) and (B, 1, L)
        elif passes.ndim == 4 and labels.ndim == 2:  # (T, B, L, C) and (B, L)
            if getattr(model, "loss_type", PER_TOKEN[0]) not in PER_TOKEN:
                raise ValueError(
                    f"{type(model).__name__} has its own loss of a sequence, which may shift the labels; VWCITrainer "
                    f"takes models with model.loss_type = {' or '.join(map(repr, PER_TOKEN))}"
                )
            passes = passes.movedim(-1, 2)
        return vwci_loss(passes, labels, ignore_index=IGNORED, measure=self.measure)


def calibration_metrics(prediction: Any, *, bins: int = 20) -> dict[str, float]:
    """Every metric of `singleshot.Calibration`, for ``Trainer(compute_metrics=calibration_metrics)``.

    A token classifier is evaluated over all tokens whose label is not -100.
    """
    calibration = Calibration(bins=bins)
    scores = prediction.predictions
    logits = as_tensor(scores[0] if isinstance(scores, tuple) else scores, "predictions")
    labels = as_tensor(prediction.label_ids, "label_ids")
    if logits.ndim == 3 and labels.ndim == 2:  # (N, L, C) and (N, L)
        logits = logits.movedim(-1, 1)
    calibration.update(logits=logits, labels=labels, ignore_index=IGNORED)
    return calibration.compute().metrics()
