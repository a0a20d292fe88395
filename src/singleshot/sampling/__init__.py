"""How T stochastic predictions are made, and made cheaply."""

from singleshot.sampling.explanation import Explanation, explain
from singleshot.sampling.noise import noise_layers
from singleshot.sampling.sampler import sample
from singleshot.sampling.switching import stochastic

__all__ = ["Explanation", "explain", "noise_layers", "sample", "stochastic"]
