"""Statistics of T stochastic passes: mean, covariance, entropy, mutual information and disagreement measures.

Every function takes ``logits`` of shape (T, B, C): T passes, B examples, C classes. Computation is in log space, so any
finite logits give finite values and gradients. Half-precision logits are converted to float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from singleshot.common.checks import check_choice, check_logits, check_passes, check_several_classes, values_can_be_read

DisagreementMeasure = Callable[[Tensor], Tensor]
"""Maps log-probabilities (T, B, C) to a normalized variance (B,) in [0, 1] that is 0 if the passes agree."""


def predictive_mean(logits: Tensor) -> Tensor:
    """The mean prediction m = (1/T) Σ_t p_t, probabilities of shape (B, C).

    >>> predictive_mean(torch.tensor([[[0.0, 0.0]], [[100.0, 0.0]]]))
    tensor([[0.7500, 0.2500]])
    """
    return log_probabilities(logits).exp().mean(0)


def predictive_covariance(logits: Tensor, diagonal: bool = True) -> Tensor:
    """The covariance of the T predictions, (1/T) Σ_t p_t p_tᵀ − m mᵀ.

    Returns the variance of each class (B, C), or with ``diagonal=False`` the full matrix (B, C, C).

    >>> predictive_covariance(torch.tensor([[[100.0, 0.0]], [[0.0, 100.0]]]))
    tensor([[0.2500, 0.2500]])
    """
    probs = log_probabilities(logits).exp()
    check_passes(probs)
    centred = probs - probs.mean(0)  # centred first, which is accurate if the passes nearly agree
    if diagonal:
        return centred.square().mean(0)
    with torch.autocast(probs.device.type, enabled=False):  # autocast would return half precision
        return torch.einsum("tbi,tbj->bij", centred, centred) / len(probs)


def predictive_entropy(logits: Tensor) -> Tensor:
    """The entropy of the mean prediction, H(m) = −Σ_c m_c log m_c, in nats: the total uncertainty. Shape (B,).

    >>> predictive_entropy(torch.zeros(3, 1, 2))
    tensor([0.6931])
    """
    return _entropy(_log_mean(log_probabilities(logits)))


def mutual_information(logits: Tensor) -> Tensor:
    """The disagreement of the passes, (1/T) Σ_t KL(p_t ‖ m) = H(m) − (1/T) Σ_t H(p_t), in nats. Shape (B,).

    >>> mutual_information(torch.tensor([[[100.0, 0.0]], [[0.0, 100.0]]]))
    tensor([0.6931])
    """
    log_probs = log_probabilities(logits)
    check_passes(logits)
    return _mutual_information(log_probs)


def normalized_variance(logits: Tensor, measure: str | DisagreementMeasure = "bhattacharyya") -> Tensor:
    """The disagreement of T passes as a number in [0, 1] per example, 0 if they agree. Shape (B,).

    The paper's wording fits both ``bhattacharyya`` and ``hellinger``; the default is a choice.

    Args:
        logits: (T, B, C) with T ≥ 2.
        measure: the disagreement measure. With BC(p, q) = Σ_c √(p_c q_c) and the mean prediction m:

            - ``bhattacharyya``: 1 − (1/T) Σ_t BC(p_t, m)
            - ``unbiased``: ``bhattacharyya`` × T / (T − 1)
            - ``total_variation``: (1/T) Σ_t ½ ‖p_t − m‖₁
            - ``mutual_information``: (1/T) Σ_t KL(p_t ‖ m) / log T
            - ``hellinger``: (1/T) Σ_t √(1 − BC(p_t, m))
            - ``confident_disagreement``: ``total_variation`` × (1 − H(m) / log C)
            - ``epistemic``: ``hellinger`` × √(I / H(m)), where I is the mutual information, so that I / H(m) is the
              share of the uncertainty that comes from disagreement
            - or a function from log-probabilities (T, B, C) to (B,)

    >>> agree = torch.tensor([[[5.0, 0.0]], [[5.0, 0.0]]])
    >>> normalized_variance(agree)
    tensor([0.])
    >>> disagree = torch.tensor([[[100.0, 0.0]], [[0.0, 100.0]]])
    >>> normalized_variance(disagree, measure="total_variation")
    tensor([0.5000])
    """
    function = resolve_measure(measure)
    log_probs = log_probabilities(logits)
    check_passes(logits)
    return apply_measure(function, log_probs)


def resolve_measure(measure: str | DisagreementMeasure) -> DisagreementMeasure:
    """Return the function of a named disagreement measure; a function is returned unchanged."""
    if callable(measure):
        return measure
    check_choice("measure", measure, tuple(MEASURES))
    return MEASURES[measure]


def apply_measure(measure: DisagreementMeasure, log_probs: Tensor) -> Tensor:
    """Return α (B,) of log-probabilities (T, B, C), checked for shape and range."""
    alpha = measure(log_probs)
    if alpha.shape != log_probs.shape[1:2]:
        raise ValueError(
            f"a disagreement measure must map (T, B, C) = {tuple(log_probs.shape)} to one number per example, "
            f"({log_probs.shape[1]},); this one returned shape {tuple(alpha.shape)}"
        )
    if values_can_be_read(alpha) and bool(((alpha < 0) | (alpha > 1)).any()):
        raise ValueError(
            "a disagreement measure must lie in [0, 1]; this one returned values from "
            f"{float(alpha.detach().min()):g} to {float(alpha.detach().max()):g}"
        )
    return alpha


def log_probabilities(logits: Tensor) -> Tensor:
    """Check logits (T, B, C) and return their log-softmax."""
    check_logits(logits, ("(T, B, C)",))
    check_several_classes(logits)
    return finite_log_softmax(logits)


def finite_log_softmax(logits: Tensor) -> Tensor:
    """Log-softmax in at least float32, clamped so that sums and products of it do not overflow."""
    log_probs = torch.log_softmax(at_least_float32(logits), dim=-1)
    least = -math.sqrt(torch.finfo(log_probs.dtype).max) / 2**12
    is_on_cpu = values_can_be_read(log_probs) and log_probs.device.type == "cpu"  # elsewhere a look would wait
    if is_on_cpu and bool(log_probs.detach().amin() >= least):
        return log_probs  # a look at the values costs a third of a clamp and its backward pass
    return log_probs.clamp(min=least)


def at_least_float32(tensor: Tensor) -> Tensor:
    """Convert half precision to float32, because its mantissa is too short for sums over classes."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _log_mean(log_probs: Tensor) -> Tensor:
    return torch.logsumexp(log_probs, dim=0) - math.log(len(log_probs))


def _entropy(log_probs: Tensor) -> Tensor:
    return -(log_probs.exp() * log_probs).sum(-1)


def _mutual_information(log_probs: Tensor) -> Tensor:
    divergence = (log_probs.exp() * (log_probs - _log_mean(log_probs))).sum(-1)
    return divergence.mean(0).clamp(min=0)  # rounding can give −1e-8


def _one_minus_coefficient(log_probs: Tensor) -> Tensor:
    """1 − BC(p_t, m) for each pass, (T, B).

    Computed as ½ Σ_c (√p_c − √m_c)², which avoids cancellation, with √p = exp(½ log p), whose gradient is finite at 0.
    """
    difference = (log_probs / 2).exp() - (_log_mean(log_probs) / 2).exp()
    return difference.square().sum(-1) / 2


def _bhattacharyya(log_probs: Tensor) -> Tensor:
    return _one_minus_coefficient(log_probs).mean(0).clamp(max=1)


def _unbiased(log_probs: Tensor) -> Tensor:
    passes = len(log_probs)
    return _bhattacharyya(log_probs) * (passes / (passes - 1))


def _total_variation(log_probs: Tensor) -> Tensor:
    probs = log_probs.exp()
    return ((probs - probs.mean(0)).abs().sum(-1) / 2).mean(0).clamp(max=1)


def _normalized_mutual_information(log_probs: Tensor) -> Tensor:
    return (_mutual_information(log_probs) / math.log(len(log_probs))).clamp(max=1)


def _hellinger(log_probs: Tensor) -> Tensor:
    return flat_root(_one_minus_coefficient(log_probs)).mean(0).clamp(max=1)


def flat_root(values: Tensor) -> Tensor:
    """Square root with gradient 0 instead of infinity at 0, for passes that agree exactly."""
    positive = values > 0
    return torch.where(positive, torch.where(positive, values, 1).sqrt(), 0)


def _epistemic(log_probs: Tensor) -> Tensor:
    # If a network has memorised its images, every pass is certain and the share is 1.
    uncertainty = _entropy(_log_mean(log_probs)).clamp(min=torch.finfo(log_probs.dtype).tiny)
    share = (_mutual_information(log_probs) / uncertainty).clamp(max=1)
    return _hellinger(log_probs) * flat_root(share)


def _confident_disagreement(log_probs: Tensor) -> Tensor:
    certainty = 1 - _entropy(_log_mean(log_probs)) / math.log(log_probs.shape[-1])
    return _total_variation(log_probs) * certainty.clamp(0, 1)


MEASURES: dict[str, DisagreementMeasure] = {
    "bhattacharyya": _bhattacharyya,
    "unbiased": _unbiased,
    "total_variation": _total_variation,
    "mutual_information": _normalized_mutual_information,
    "hellinger": _hellinger,
    "confident_disagreement": _confident_disagreement,
    "epistemic": _epistemic,
}
