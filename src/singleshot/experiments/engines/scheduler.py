"""The line to the scheduler of a dask cluster, and what is said when there is none."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from singleshot.errors import StoppedError

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
