"""From one value per class to logits: what isotonic regression and histogram binning share."""

from __future__ import annotations

import torch
from torch import Tensor


def double_probs(logits: Tensor) -> Tensor:
    """softmax(z) in float64; laid out in one piece, so that equal rows give equal bits."""
    return torch.softmax(logits.double().contiguous(), -1)


def log_probs_above_zero(values: Tensor, probs: Tensor, examples: int) -> Tensor:
    """Log-probabilities in proportion to frequencies (..., C) seen among ``examples``, none of them −∞.

    A frequency of 0 or 1 was seen N times, not for ever: 1/(N+1), one imagined example, is shared out among the
    classes, half as the uncalibrated probabilities have it and half evenly. So nothing is ruled out, classes the
    frequencies leave tied stay in their order, and where all frequencies are 0 the model's own opinion counts.
    """
    imagined = (probs + 1 / probs.shape[-1]) / (2 * (examples + 1))
    mixed = values + imagined
    return torch.log(mixed / mixed.sum(-1, keepdim=True))


def in_dtype_of(logits: Tensor, log_probs: Tensor) -> Tensor:
    """Float64 for float64 logits, float32 for all others: half precision has too few digits for log-probabilities."""
    return log_probs if logits.dtype == torch.float64 else log_probs.float()
