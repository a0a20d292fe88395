from .figures import plot_ece_against_passes as plot_ece_against_passes
from .protocols import (
    case2_split as case2_split,
    temperature_case1 as temperature_case1,
    temperature_case2 as temperature_case2,
)
from .published import published_rows as published_rows
from .theory import (
    mixture_kl as mixture_kl,
    prior_of_weight_decay as prior_of_weight_decay,
    weight_decay_of_prior as weight_decay_of_prior,
)
