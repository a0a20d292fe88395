"""The Bayesian reading of training with noise: what weight decay has to do with a posterior over weights.

A layer that is kept with probability e and dropped otherwise has, in the variational view, the posterior
q = e N(θ, σ²I) + (1 − e) N(0, σ²I) over its weights. Training with cross-entropy and weight decay then minimises a
bound on the evidence, whose penalty is KL(q ‖ prior).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def mixture_kl(means: Tensor, mixture: Tensor, *, sigma: float, prior_std: float = 1.0) -> Tensor:
    """KL(Σ_i e_i N(θ_i, σ²I) ‖ N(0, s²I)) for components that do not overlap.

    ½ Σ_i e_i ‖θ_i‖² / s² + (D/2) (σ²/s² − 1 − log(σ²/s²)) − H(e)

    The entropy of a mixture is at most that of its parts plus H(e), so this is a lower bound, off by at most H(e) and
    exact once the components are a few σ apart. Weights of many dimensions usually are: ‖θ‖ grows with √D.

    Args:
        means: (K, D), the centre θ_i of each component.
        mixture: (K,), the probabilities e_i.
        sigma: the standard deviation σ of every component.
        prior_std: the standard deviation s of the prior.

    >>> one_gaussian = mixture_kl(torch.tensor([[3.0, 4.0]]), torch.tensor([1.0]), sigma=1.0)
    >>> one_gaussian  # ½ ‖θ‖²
    tensor(12.5000)
    """
    if means.ndim != 2 or mixture.shape != means.shape[:1]:
        raise ValueError(f"means must be (K, D) and mixture (K,), got {tuple(means.shape)} and {tuple(mixture.shape)}")
    if (mixture < 0).any() or not math.isclose(float(mixture.sum()), 1.0, rel_tol=1e-5):
        raise ValueError(f"mixture must be probabilities that sum to 1, got {mixture.tolist()}")
    if not (sigma > 0 and prior_std > 0):
        raise ValueError(f"sigma and prior_std must be above 0, got {sigma} and {prior_std}")
    ratio = (sigma / prior_std) ** 2
    distance = (mixture * means.square().sum(-1)).sum() / prior_std**2
    spread = means.shape[1] * (ratio - 1 - math.log(ratio))
    entropy: Tensor = torch.special.entr(mixture).sum()
    return (distance + spread) / 2 - entropy


def weight_decay_of_prior(survival: float, examples: int, prior_std: float = 1.0) -> float:
    """The ``weight_decay`` of SGD under which cross-entropy training maximises the evidence bound: e / (N s²).

    Per example the bound's penalty is KL / N. Only e ‖θ‖² / (2 s²) of the KL depends on θ (the dropped component sits
    at 0), and its gradient, e θ / (N s²), is what an optimizer adds for a weight decay of e / (N s²). The paper writes
    the penalty as λ ‖θ‖², so its λ is half of this.

    >>> weight_decay_of_prior(survival=0.5, examples=50_000)
    1e-05
    """
    _check_noise(survival, examples)
    if not prior_std > 0:
        raise ValueError(f"prior_std must be above 0, got {prior_std}")
    return survival / (examples * prior_std**2)


def prior_of_weight_decay(weight_decay: float, survival: float, examples: int) -> float:
    """The prior's standard deviation that a ``weight_decay`` stands for: the inverse of `weight_decay_of_prior`.

    >>> round(prior_of_weight_decay(0.001, survival=0.5, examples=50_000), 12)
    0.1
    """
    _check_noise(survival, examples)
    if not weight_decay > 0:
        raise ValueError(f"weight_decay must be above 0, got {weight_decay}; without decay the prior is flat")
    return math.sqrt(survival / (examples * weight_decay))


def _check_noise(survival: float, examples: int) -> None:
    if not 0 < survival <= 1:
        raise ValueError(f"survival must lie in (0, 1], got {survival}")
    if examples < 1:
        raise ValueError(f"examples must be at least 1, got {examples}")
