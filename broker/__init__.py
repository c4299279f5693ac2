"""
Names, bytes, disk: the broker and its client. Knows no platform and no agent.

    client      send, ask, register, list           receipt      what a sender is told
    receiver    the names that a client holds       hands        what it has in its hands
    delivery    what a handler is given             outcome      what a handler says of it
    aio         the same for asyncio                steps        calls, for both clients
    stream      a subscription in a loop            handover     from threads to a loop
    looping     how the loop runs the calls     forking      a client in the child of a fork
    workers     threads for handlers                transport    a client's one IO thread
    pending     a request on its way                message      the message and its limits
    wire        one frame, in and out               errors       everything raised on purpose
    paths       where the bus lives                 settings     the broker's numbers
    busd        hermes-busd                         daemon       lock, sockets, signals
    router      the ROUTER thread                   services     child services
    hub         what the broker knows while it runs
    queries     what a client asks                  boxes        verbs dead, inbox, cancel
    letters     dead letters and boxes, as SQL      notices      what a sender is told of a death
    keeping     what the store keeps, and how long  retrying     verbs retry, purge
    eventing    publish and subscribe               publisher    a client's own events, going out
    subscriber  a client's events thread            subscription one handler and what it gets
    gaps        which events are missing            plane        where the events are
    event       one event as one frame              topics       names of events, patterns
    proxy       XSUB in, XPUB out                   announce     the broker's own events
    publishing  verbs publish, probe                places       where the sockets lie
    sending     verb send                           waiting      verb wait
    delivering  what goes out, what comes back      acking       what a holder says of it
    registering names: claimed, kept, lost          presence     who holds a name
    ephemeral   names with a suffix, and their end
    admin       list, trace, status                 clock        the clocks, and bus time
    bulk        many new messages at once           peers        who is at a connection's end
    marks       bus time in the store               loading      the hub, filled at a start
    watch       the folder while the broker runs    door         who gets in while files are scarce
    locking     one broker per folder               logs         the broker's log
    mailbox     which message goes next             state        the life of a delivery
    store       the tables, as methods              schema       the tables
    storing     the store thread                    opening      a store, damaged or not
    story       what belongs together               private     a folder and files of one user
    lives       what an end tells of a life

The names below are imported on first use (PEP 562): a sender pays only for what it uses.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wakebus.broker.aio import AsyncClient as AsyncClient
    from wakebus.broker.client import Client as Client
    from wakebus.broker.delivery import AsyncDelivery as AsyncDelivery
    from wakebus.broker.delivery import Delivery as Delivery
    from wakebus.broker.errors import Refused as Refused
    from wakebus.broker.errors import TimedOut as TimedOut
    from wakebus.broker.errors import Undecided as Undecided
    from wakebus.broker.errors import WakebusError as WakebusError
    from wakebus.broker.event import Event as Event
    from wakebus.broker.gaps import Gap as Gap
    from wakebus.broker.message import Message as Message
    from wakebus.broker.outcome import Later as Later
    from wakebus.broker.outcome import Outcome as Outcome
    from wakebus.broker.outcome import Refusal as Refusal
    from wakebus.broker.receipt import Answer as Answer
    from wakebus.broker.receipt import Receipt as Receipt
    from wakebus.broker.stream import AsyncSubscription as AsyncSubscription
    from wakebus.broker.subscription import Subscription as Subscription

__version__ = "0.1.0"

_HOME = {
    "Answer": "receipt",
    "AsyncClient": "aio",
    "AsyncDelivery": "delivery",
    "AsyncSubscription": "stream",
    "Client": "client",
    "Receipt": "receipt",
    "Delivery": "delivery",
    "Event": "event",
    "Gap": "gaps",
    "Subscription": "subscription",
    "Later": "outcome",
    "Outcome": "outcome",
    "Refusal": "outcome",
    "Message": "message",
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
