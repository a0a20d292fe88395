"""Which workers of a dask cluster may make runs: those that have the library as the driver has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from singleshot import __version__
from singleshot.environment import describe_environment
from singleshot.experiments.engines.engine import GridWatcher
from singleshot.experiments.engines.scheduler import asked

if TYPE_CHECKING:
    from distributed import Client


class Workers:
    """The workers of a cluster; only those count that have the library in the version of the driver."""

    def __init__(self, client: Client, watcher: GridWatcher) -> None:
        self.client, self.watcher = client, watcher
        self.fit: set[str] = set()
        self.unfit: set[str] = set()
        self.was_any_fit = False

    def there(self) -> set[str]:
        """Those of them that are there now; new ones are asked for their version first."""
        there = set(asked(self.client.nthreads))
        self.fit &= there  # what comes back, if at the same address, may have another version
        self.unfit &= there
        if there - self.fit - self.unfit:
            self._check()
        return there & self.fit

    def _check(self) -> None:
        """Say of every new worker that is unfit what is wrong with it; an error where none was ever fit."""
        mine, found = Version(__version__, _revision()), _versions(self.client)
        self.fit |= {address for address, theirs in found.items() if theirs.fits(mine)}
        self.was_any_fit |= bool(self.fit)
        for address in found.keys() - self.fit - self.unfit:
            reason = f"the dask worker at {address} has {found[address]}, this is {mine}: install the same on it"
            if not self.was_any_fit:
                raise ValueError(f"{reason}. Finished runs are kept")
            self.watcher.waiting(f"Left out: {reason}")
            self.unfit.add(address)


@dataclass(frozen=True)
class Version:
    """Which singleshot a machine has."""

    number: str | None  # None: it has none
    revision: str | None = None  # None: it does not know, as an installed package

    def __str__(self) -> str:
        of = "" if self.revision is None else f" of revision {self.revision}"
        return "no singleshot" if self.number is None else f"singleshot {self.number}{of}"

    def fits(self, other: Version) -> bool:
        """Whether they give the same results, as far as both know."""
        return self.number == other.number and (None in (self.revision, other.revision) or self == other)


def _versions(client: Client) -> dict[str, Version]:
    """What every worker has, by its address."""
    workers = asked(client.get_versions, packages=["singleshot"])["workers"]
    numbers = {address: facts["packages"].get("singleshot") for address, facts in workers.items()}
    # Only those with this number may understand the question; one of another commit may not, and is another version.
    alike = [address for address, number in numbers.items() if number == __version__]
    answers = asked(client.run, _revision, workers=alike, on_error="return") if alike else {}
    gone = {address for address, answer in answers.items() if isinstance(answer, OSError)}  # or to be asked again
    revisions = {address: "unknown" if isinstance(answer, Exception) else answer for address, answer in answers.items()}
    return {
        address: Version(number, revisions.get(address)) for address, number in numbers.items() if address not in gone
    }


def _revision() -> str | None:
    """The commit of a checkout; whether it was changed since does not count: a note in its documents would."""
    revision = describe_environment()["revision"]
    return None if revision is None else str(revision).removesuffix("-dirty")
