"""T stochastic predictions at nearly the cost of one: what the passes have in common is computed once."""

from singleshot.sampling.added_noise import AddedNoise, add_noise, remove_noise
from singleshot.sampling.explanation import Explanation, explain
from singleshot.sampling.noise import noise_layers, stochastic
from singleshot.sampling.sampler import Sampled, sample
from singleshot.sampling.stochastic_depth import StochasticDepthBlock

__all__ = [
    "AddedNoise",
    "Explanation",
    "Sampled",
    "StochasticDepthBlock",
    "add_noise",
    "explain",
    "noise_layers",
    "remove_noise",
    "sample",
    "stochastic",
]
