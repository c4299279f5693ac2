"""
The connection that a tool or /bus calls the broker by.

Rule 1: a process that listens has one, and one that is about to listen will: it is waited for.
Rule 2: any other process, and one that lost its name, has one for the call alone: it registers
nothing and starts no broker.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from wakebus.broker.denial import not_running
from wakebus.broker.errors import NotRunning

if TYPE_CHECKING:
    from wakebus.broker import Client
    from wakebus.plugin.hermes.runtime import Runtime
    from wakebus.plugin.sender_identity import Sender

CONNECT_S: Final = 2.0
SEND_S: Final = 5.0
JOIN_S: Final = 3.0  # for a process that is just going on the bus
_STEP_S: Final = 0.05


class ToolConnection(NamedTuple):
    """A connection for one call, the name to send under, and what proves it."""

    client: "Client"
    sender: str
    token: str | None = None


@contextmanager
def tool_connection(runtime: "Runtime") -> Iterator[ToolConnection]:
    """Inside, there is a connection. Raises NotRunning, BadName."""
    if runtime.listens and not runtime.lost:
        client = _own_client(runtime)
        yield ToolConnection(client, runtime.endpoint or _stranger(runtime).name)
        return
    stranger = _stranger(runtime)
    client = _short_lived()
    try:
        if not client.connected(CONNECT_S):
            text = f"no broker answers at {client.address}"
            raise not_running(client.address, text, "nothing was sent")
        yield ToolConnection(client, stranger.name, stranger.token)
    finally:
        client.close()


def _stranger(runtime: "Runtime") -> "Sender":
    """Return who sends where no endpoint is registered, as notify-hermes finds it."""
    from wakebus.plugin.sender_identity import find_sender

    return find_sender(None, runtime.environ, home=runtime.home.path)


def _own_client(runtime: "Runtime") -> "Client":
    """Return the process's client; one that is not on the bus yet tries at once."""
    deadline = time.monotonic() + JOIN_S
    while (client := runtime.client) is None or not (runtime.endpoint or runtime.error):
        if time.monotonic() > deadline:
            raise NotRunning(
                runtime.error or "this session is not on the bus yet; nothing was sent"
            )
        runtime.retry_now()
        time.sleep(_STEP_S)
    return client


def _short_lived() -> "Client":
    from wakebus.broker import Client

    return Client(timeout=SEND_S)
