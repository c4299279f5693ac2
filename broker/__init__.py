"""
Names, bytes, disk: the broker and its client. Knows no platform and no agent.

    errors     everything raised on purpose         paths      where the bus lives
    address    where the running broker is          settings   the broker's numbers
    folder_trust  who may replace what lies in a folder  duration  seconds as people read them
    other_version  what is said of a broker of another version
    denial     why the system keeps a process from the bus
    user_unit  the broker as a service of its user

    protocol/  what client and server agree on      system/    files, locks, clocks, processes
    client/    a client's messages                  store/     the tables, and their thread
    pubsub/    a client's events                    core/      what the broker knows and decides
    aio/       both, in an event loop               verbs/     the requests, by subject
    backup/    a bus in one file, and the way back  server/    the process: sockets, command line
    command_line/  how commands read their words

Client and server meet in protocol/, system/ and address only. The names below are imported on
first use (PEP 562): a sender pays only for what it uses.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wakebus.broker.aio.client import AsyncClient as AsyncClient
    from wakebus.broker.aio.subscription import AsyncSubscription as AsyncSubscription
    from wakebus.broker.client.client import Client as Client
    from wakebus.broker.client.delivery import AsyncDelivery as AsyncDelivery
    from wakebus.broker.client.delivery import Delivery as Delivery
    from wakebus.broker.errors import Refused as Refused
    from wakebus.broker.errors import TimedOut as TimedOut
    from wakebus.broker.errors import Undecided as Undecided
    from wakebus.broker.errors import WakebusError as WakebusError
    from wakebus.broker.protocol.event import Event as Event
    from wakebus.broker.protocol.message import Message as Message
    from wakebus.broker.protocol.outcome import Later as Later
    from wakebus.broker.protocol.outcome import Outcome as Outcome
    from wakebus.broker.protocol.outcome import Refusal as Refusal
    from wakebus.broker.protocol.receipt import Answer as Answer
    from wakebus.broker.protocol.receipt import Receipt as Receipt
    from wakebus.broker.pubsub.sequences import Gap as Gap
    from wakebus.broker.pubsub.subscription import Subscription as Subscription

__version__ = "0.1.0"

_HOME = {
    "Answer": "protocol.receipt",
    "AsyncClient": "aio.client",
    "AsyncDelivery": "client.delivery",
    "AsyncSubscription": "aio.subscription",
    "Client": "client.client",
    "Receipt": "protocol.receipt",
    "Delivery": "client.delivery",
    "Event": "protocol.event",
    "Gap": "pubsub.sequences",
    "Subscription": "pubsub.subscription",
    "Later": "protocol.outcome",
    "Outcome": "protocol.outcome",
    "Refusal": "protocol.outcome",
    "Message": "protocol.message",
    "Refused": "errors",
    "TimedOut": "errors",
    "Undecided": "errors",
    "WakebusError": "errors",
}
__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"wakebus.broker.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
