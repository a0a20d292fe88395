"""How T stochastic predictions are made, and made cheaply."""

from singleshot.sampling.explain import Explanation, explain
from singleshot.sampling.noise import noise_layers
from singleshot.sampling.sample import sample
from singleshot.sampling.stochastic import stochastic

__all__ = ["Explanation", "explain", "noise_layers", "sample", "stochastic"]
