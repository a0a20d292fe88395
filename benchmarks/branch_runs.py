"""How many residual branches T passes of a stochastic-depth network run, if equal beginnings are computed once."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import comb


def expected_branch_runs(survivals: Sequence[float], samples: int) -> float:
    """How many branches T passes run in expectation, if passes whose coins agree so far are computed once.

    Block l is run once for every distinct beginning c = (c_1 … c_l) among the T passes that ends in a kept coin. A
    beginning of probability P(c) is among them with probability 1 − (1 − P(c))^T = Σ_k (−1)^(k+1) C(T, k) P(c)^k, and
    summed over all beginnings each P^k factorises: Σ_c P(c)^k = p_l^k Π_{j<l} (p_j^k + (1 − p_j)^k). The alternating
    sum would lose all its digits in floating point, so it is done in fractions.

    >>> round(expected_branch_runs([0.5], samples=2), 12)  # kept by at least one of two passes
    0.75
    """
    exact = [Fraction(survival) for survival in survivals]
    total = Fraction(0)
    for k in range(1, samples + 1):
        beginnings = Fraction(1)
        runs = Fraction(0)
        for survival in exact:
            runs += survival**k * beginnings
            beginnings *= survival**k + (1 - survival) ** k
        total += (-1) ** (k + 1) * comb(samples, k) * runs
    return float(total)


def relative_branch_runs(survivals: Sequence[float], samples: int) -> float:
    """The same over the branches of one stochastic pass, Σ_l p_l."""
    return expected_branch_runs(survivals, samples) / sum(survivals)
