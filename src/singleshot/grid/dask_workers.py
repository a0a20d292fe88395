"""The connection to a dask scheduler, and which of its workers have the version of the driver."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from singleshot import __version__
from singleshot.common.environment import describe_environment
from singleshot.common.errors import StoppedError
from singleshot.grid.engine import GridWatcher

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 10.0


def connect(address: str) -> Client:
    """Return a client without log messages: our errors report a lost scheduler."""
    try:
        from distributed import Client
    except ImportError:
        raise ValueError("--engine dask needs an extra: pip install 'singleshot[cluster]'") from None
    if not address:  # dask would start a local cluster
        raise ValueError("--engine dask needs the address of a scheduler, such as --scheduler tcp://host:8786")
    try:
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL + 1)
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = str(error) or type(error).__name__
    raise ValueError(
        f"--scheduler {address} cannot be reached ({reason}). Start one with `dask scheduler` and pass the address it "
        "prints, such as tcp://host:8786; check that no firewall blocks its port"
    )


def call_scheduler(method: Any, *arguments: Any, **options: Any) -> Any:
    """Call a method of the client; raise StoppedError if the scheduler is gone."""
    from distributed.client import ClosedClientError

    try:
        return method(*arguments, **options)
    except OSError as error:
        reason = str(error) or type(error).__name__
    except (AttributeError, ClosedClientError):  # the client has closed itself
        reason = "it does not answer"
    raise StoppedError(f"the dask scheduler is gone ({reason}). Finished runs are kept; repeat the command to resume")


class Workers:
    """The workers of a cluster that have the same version of the library as the driver."""

    def __init__(self, client: Client, watcher: GridWatcher) -> None:
        self.client, self.watcher = client, watcher
        self.is_usable: dict[str, bool] = {}  # by address
        self.found_usable = False

    def available(self) -> set[str]:
        """Return the addresses of the connected workers with the right version; new workers are checked first."""
        connected = set(call_scheduler(self.client.nthreads))
        for address in self.is_usable.keys() - connected:
            del self.is_usable[address]  # a worker that returns at the same address may have another version
        if connected - self.is_usable.keys():
            self._check_versions()
        return {address for address in connected if self.is_usable.get(address)}

    def _check_versions(self) -> None:
        """Report every new worker of another version; raise ValueError if no worker ever had the right one."""
        own, found = _version(), _versions(self.client)
        self.found_usable |= any(version.matches(own) for version in found.values())
        for address in found.keys() - self.is_usable.keys():
            self.is_usable[address] = found[address].matches(own)
            reason = f"the dask worker at {address} has {found[address]}, but the driver has {own}"
            if not self.found_usable:
                raise ValueError(f"{reason}; install the same version. Finished runs are kept")
            if not self.is_usable[address]:
                self.watcher.waiting(f"Not used: {reason}")


@dataclass(frozen=True)
class Version:
    """The version of singleshot on a machine."""

    number: str | None = None  # None: not installed, or too different to answer
    revision: str | None = None  # None: unknown, as for an installed package

    def __str__(self) -> str:
        revision = "" if self.revision is None else f" of revision {self.revision}"
        return "another version or no singleshot" if self.number is None else f"singleshot {self.number}{revision}"

    def matches(self, other: Version) -> bool:
        """Whether both are the same version, as far as their revisions are known."""
        return self.number == other.number and (None in (self.revision, other.revision) or self == other)


def _versions(client: Client) -> dict[str, Version]:
    """Return the version of every worker, by address; a worker that is gone is left out."""
    answers = call_scheduler(client.run, _version, on_error="return")
    # A version without this function answers with an error.
    return {
        address: Version() if isinstance(answer, Exception) else answer
        for address, answer in answers.items()
        if not isinstance(answer, OSError)
    }


def _version() -> Version:
    """Return the version of this process. A revision has no "-dirty": local changes may be in documents only."""
    revision = describe_environment()["revision"]
    return Version(__version__, None if revision is None else str(revision).removesuffix("-dirty"))
