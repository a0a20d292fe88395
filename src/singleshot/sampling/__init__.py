"""T stochastic predictions at nearly the cost of one: what the passes have in common is computed once."""

from singleshot.sampling.explanation import Explanation, explain
from singleshot.sampling.noise import noise_layers, stochastic
from singleshot.sampling.sampler import Sampled, sample
from singleshot.sampling.stochastic_depth import StochasticDepthBlock

__all__ = ["Explanation", "Sampled", "StochasticDepthBlock", "explain", "noise_layers", "sample", "stochastic"]
