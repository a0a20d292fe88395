"""A skorch net whose training steps use the VWCI loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from skorch import NeuralNetClassifier
from skorch.utils import to_tensor
from torch import Tensor, nn

from singleshot.losses import VWCILoss
from singleshot.sampling import sample
from singleshot.sampling.sampler import find_logits


class VWCIClassifier(NeuralNetClassifier):
    """The ``NeuralNetClassifier`` of skorch for a module that returns logits, with the VWCI loss in training.

    The validation loss is the cross-entropy of one ordinary forward pass, and ``predict_proba`` its softmax.

    Args:
        module: a class or instance of ``nn.Module`` with noise layers that returns logits (N, C).
        *args: of ``NeuralNetClassifier``.
        criterion: the loss of the passes (T, N, C); its options are ``criterion__measure`` and so on.
        samples: stochastic passes per step.
        gradient_passes: how many of them carry gradients, see `singleshot.sample`.
        **kwargs: of ``NeuralNetClassifier``.
    """

    def __init__(
        self,
        module: Any,
        *args: Any,
        criterion: Any = VWCILoss,
        samples: int = 5,
        gradient_passes: int | None = None,
        predict_nonlinearity: Any = torch.nn.Softmax(dim=-1),  # noqa: B008  # has no state
        **kwargs: Any,
    ) -> None:
        super().__init__(module, *args, criterion=criterion, predict_nonlinearity=predict_nonlinearity, **kwargs)
        self.samples = samples
        self.gradient_passes = gradient_passes

    def infer(self, x: Any, **fit_params: Any) -> Tensor:
        """Return the logits of T passes in training mode, of one in evaluation mode."""
        module: nn.Module = self.module_
        if not module.training:
            return find_logits(super().infer(x, **fit_params))
        given = to_tensor(x, device=self.device)
        args = () if isinstance(given, Mapping) else (given,)
        kwargs = self._merge_x_and_fit_params(given, fit_params) if isinstance(given, Mapping) else fit_params
        return sample(module, *args, samples=self.samples, gradient_passes=self.gradient_passes, **kwargs)

    def get_loss(self, y_pred: Tensor, y_true: Any, X: Any = None, training: bool = False) -> Tensor:  # noqa: N803
        """Return the criterion; in evaluation mode, VWCILoss is the cross-entropy of one pass."""
        loss: Tensor = self.criterion_(y_pred, to_tensor(y_true, device=self.device))
        return loss
