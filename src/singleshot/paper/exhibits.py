"""Which runs a table or figure of the paper is made of; what later runs depend on is read from earlier results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from singleshot.common.checks import check_choice
from singleshot.grid.job import Job, job_of
from singleshot.grid.store import ResultStore
from singleshot.paper.methods import BETAS, EPSILONS, OTHER_MEASURES, PASSES
from singleshot.training.recipe import Recipe

CI = tuple(f"ci_{beta:g}" for beta in BETAS)
CHOSEN_SMOOTHING = "smoothing"
"""Label smoothing with the strength that held-out images chose: a method only once those runs are there."""
ADDED = ("passes", CHOSEN_SMOOTHING, "focal", *(f"vwci_{measure}" for measure in OTHER_MEASURES))
"""Rows we add to every table: what the paper's own comparison lacks."""

EXHIBITS: dict[str, tuple[str, ...]] = {
    "table1": ("baseline", *CI, "vwci", *ADDED),
    "table2": ("baseline", "held_out_baseline", "vwci", *ADDED),
    "table3": ("baseline", "vwci", "vwci_star", *ADDED),
    "tableA": ("baseline", *CI, "vwci", *ADDED),
    "tableB": ("baseline", *CI, "vwci", *ADDED),
    "fig1": ("baseline", *CI, "vwci"),
    "fig2": ("baseline",),
    "fig4": ("baseline", *(f"vwci_T{passes}" for passes in PASSES)),
    "fig5": ("baseline", *CI, "vwci"),
}
"""The methods whose runs each needs."""
SELECTION_SEED = 0
"""The seed whose held-out images choose the strength of label smoothing."""


@dataclass(frozen=True)
class Grid:
    """All runs of some exhibits: every method from every base recipe, with several seeds."""

    exhibits: tuple[str, ...]
    bases: tuple[Recipe, ...]  # what all methods share, one for each data set and network
    seeds: int

    def __post_init__(self) -> None:
        for exhibit in self.exhibits:
            check_choice("exhibit", exhibit, tuple(EXHIBITS))

    def jobs(self, store: ResultStore) -> list[Job]:
        """Every run that is known to be needed, given what is there; seed by seed, so that what is first is whole."""
        found = (job for seed in range(self.seeds) for base in self.bases for job in self._jobs(base, seed, store))
        return list({job.key: job for job in found}.values())

    def _jobs(self, base: Recipe, seed: int, store: ResultStore) -> Iterator[Job]:
        for method in dict.fromkeys(name for exhibit in self.exhibits for name in EXHIBITS[exhibit]):
            if method != CHOSEN_SMOOTHING:
                yield job_of(base, method, seed)
                continue
            yield from selection_jobs(base)
            chosen = chosen_smoothing(base, store)
            if chosen is not None:
                yield job_of(base, chosen, seed)


def selection_jobs(base: Recipe) -> list[Job]:
    """The runs on 90 % of the images whose other 10 % choose the strength of label smoothing."""
    return [job_of(base, f"held_out_smoothing_{epsilon:g}", SELECTION_SEED) for epsilon in EPSILONS]


def chosen_smoothing(base: Recipe, store: ResultStore) -> str | None:
    """The label smoothing with the least NLL on held-out images; None until all its candidates were tried.

    By the NLL because it is proper: no score but the true probabilities can lower it.
    """
    candidates = selection_jobs(base)
    if store.missing(candidates):
        return None
    nll = {epsilon: store[job].metrics("validation")["nll"] for epsilon, job in zip(EPSILONS, candidates, strict=True)}
    return f"smoothing_{min(nll, key=nll.__getitem__):g}"
