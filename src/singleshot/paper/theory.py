"""The Bayesian interpretation of training with noise: weight decay as a prior over weights.

A layer that is kept with probability e has the variational posterior q = e N(θ, σ²I) + (1 − e) N(0, σ²I) over its
weights. Training with cross-entropy and weight decay maximises a lower bound on the evidence, with penalty
KL(q ‖ prior).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from singleshot.common.checks import check_range, check_size


def mixture_kl(means: Tensor, mixture: Tensor, *, sigma: float, prior_std: float = 1.0) -> Tensor:
    """KL(Σ_i e_i N(θ_i, σ²I) ‖ N(0, s²I)) for components that do not overlap.

    ½ Σ_i e_i ‖θ_i‖² / s² + (D/2) (σ²/s² − 1 − log(σ²/s²)) − H(e)

    The entropy of a mixture is at most that of its components plus H(e), so this is a lower bound with an error of at
    most H(e). It is exact if the components are a few σ apart, as for weights of many dimensions: ‖θ‖ grows with √D.

    Args:
        means: (K, D), the mean θ_i of each component.
        mixture: (K,), the probabilities e_i.
        sigma: standard deviation σ of every component.
        prior_std: standard deviation s of the prior.

    >>> one_gaussian = mixture_kl(torch.tensor([[3.0, 4.0]]), torch.tensor([1.0]), sigma=1.0)
    >>> one_gaussian  # ½ ‖θ‖²
    tensor(12.5000)
    """
    if means.ndim != 2 or mixture.shape != means.shape[:1]:
        raise ValueError(f"means must be (K, D) and mixture (K,), got {tuple(means.shape)} and {tuple(mixture.shape)}")
    if (mixture < 0).any() or not math.isclose(float(mixture.sum()), 1.0, rel_tol=1e-5):
        raise ValueError(f"mixture must be probabilities that sum to 1, got {mixture.tolist()}")
    check_range("sigma", sigma, "(0, inf)")
    check_range("prior_std", prior_std, "(0, inf)")
    ratio = (sigma / prior_std) ** 2
    distance = (mixture * means.square().sum(-1)).sum() / prior_std**2
    spread = means.shape[1] * (ratio - 1 - math.log(ratio))
    entropy: Tensor = torch.special.entr(mixture).sum()
    return (distance + spread) / 2 - entropy


def weight_decay_of_prior(survival: float, examples: int, prior_std: float = 1.0) -> float:
    """Return the ``weight_decay`` of SGD with which cross-entropy training maximises the evidence bound: e / (N s²).

    The penalty per example is KL / N. Only the term e ‖θ‖² / (2 s²) of the KL depends on θ, because the mean of the
    dropped component is 0. Its gradient e θ / (N s²) is that of a weight decay of e / (N s²). The paper writes the
    penalty as λ ‖θ‖², so its λ is half of this.

    >>> weight_decay_of_prior(survival=0.5, examples=50_000)
    1e-05
    """
    check_range("survival", survival, "(0, 1]")
    check_size("examples", examples, least=1)
    check_range("prior_std", prior_std, "(0, inf)")
    return survival / (examples * prior_std**2)


def prior_of_weight_decay(weight_decay: float, survival: float, examples: int) -> float:
    """Return the standard deviation of the prior for a ``weight_decay``: the inverse of `weight_decay_of_prior`.

    >>> round(prior_of_weight_decay(0.001, survival=0.5, examples=50_000), 12)
    0.1
    """
    check_range("weight_decay", weight_decay, "(0, inf)")
    return math.sqrt(weight_decay_of_prior(survival, examples) / weight_decay)
