"""The line to the scheduler of a dask cluster, and what is said when there is none."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from singleshot import __version__
from singleshot.common.environment import describe_environment
from singleshot.common.errors import StoppedError
from singleshot.grid.engines.engine import GridWatcher

if TYPE_CHECKING:
    from distributed import Client


CONNECT_SECONDS = 10.0


@contextmanager
def connected(address: str) -> Iterator[Client]:
    """Within it there is a client, which logs nothing: what a user must know of a lost scheduler, our errors say."""
    client = _client(address)
    logger = logging.getLogger("distributed.client")  # only now: importing dask sets its level
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with client:
            yield client
    finally:
        logger.setLevel(before)


def asked(question: Any, *arguments: Any, **options: Any) -> Any:
    """What the scheduler answers to a question of its client; a StoppedError where it is gone."""
    from distributed.client import ClosedClientError

    try:
        return question(*arguments, **options)
    except OSError as error:
        reason = str(error) or type(error).__name__
    except (AttributeError, ClosedClientError):  # the client has closed itself, and has nobody to ask
        reason = "it does not answer"
    raise StoppedError(f"the dask scheduler is gone ({reason}). Finished runs are kept; the same command goes on")


def _client(address: str) -> Client:
    """Of this scheduler, or an error that says what to do."""
    try:
        from distributed import Client
        from distributed.utils import LoopRunner
    except ImportError:
        raise ValueError("--engine dask needs the extra: pip install 'singleshot[cluster]'") from None
    if not address:  # dask would start a cluster of its own
        raise ValueError("--engine dask needs the address of its scheduler, such as --scheduler tcp://host:8786")
    try:
        LoopRunner(asynchronous=False).run_sync(_knock, address)  # a Client that fails would leave its thread behind
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = str(error) or type(error).__name__
    raise ValueError(
        f"--scheduler {address} cannot be reached ({reason}). Start one with `dask scheduler` and give the address it "
        "shows, such as tcp://host:8786; a firewall must let its port through"
    )


async def _knock(address: str) -> None:
    from distributed import Security
    from distributed.comm.core import connect

    arguments = Security().get_connection_args("client")
    comm = await connect(address, timeout=CONNECT_SECONDS, **arguments)
    await comm.close()


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
