"""
What `Client` and `AsyncClient` are made of: a connection, and the parts that speak through it.

Rule 1: a part (the names that are held, the topics) is loaded and made by its first use: a sender
pays for neither. Rule 2: who waits for an answer, and how, is not known here. Rule 3: in the child
of a fork all of it is made anew (system/fork_safety.py).
"""

import os
import threading
from typing import TYPE_CHECKING, Any, Final

from wakebus.broker.address import checked_address, router_address, topic_addresses
from wakebus.broker.client.calls import BrokerRequest, Calls
from wakebus.broker.client.connection import ClientConnection
from wakebus.broker.client.pending_request import PendingRequest
from wakebus.broker.errors import CLOSED, NotRunning, TimedOut, Undecided, WakebusError
from wakebus.broker.system.fork_safety import call_after_fork

if TYPE_CHECKING:  # a sender does not load them
    from wakebus.broker.address import TopicAddresses
    from wakebus.broker.client.delivery import Delivery
    from wakebus.broker.client.in_flight import RunHandler
    from wakebus.broker.client.registrations import Registrations
    from wakebus.broker.pubsub.topic_plane import TopicPlane

CLOSE_S: Final = 2.0


class ClientStatus:
    """What `Client` and `AsyncClient` tell of themselves."""

    def __init__(self, core: "ClientCore") -> None:
        self._core = core

    @property
    def names(self) -> dict[str, str]:
        """The names held, in order: what was asked for, and as which it was granted."""
        return self._core.names()

    @property
    def dropped(self) -> int:
        """Events of this client that could not go out: the broker was away, or its pipe full."""
        return self._core.dropped

    @property
    def missed(self) -> int:
        """Events that the subscriptions of this client have missed, as far as they know."""
        return self._core.missed

    @property
    def address(self) -> str:
        """Where the broker is looked for."""
        return self._core.connection.address


class ClientCore:
    """
    `socket`: path of the broker's socket, default from `bus/address.json`. `run`: has handlers run.

    Raises NotRunning when no broker has started here.
    """

    def __init__(self, socket: str | None, run: "RunHandler | None" = None) -> None:
        self.closed = False
        self._socket, self._run = socket, run
        self._begin()
        call_after_fork(self)

    def _begin(self, parent: ClientConnection | None = None) -> None:
        self.instance = os.urandom(8).hex()  # not by `secrets`: it loads OpenSSL
        self.calls = Calls(self._own_name, self._give_up, self._in_hand)
        self._registrations: Registrations | None = None
        self._topics: TopicPlane | None = None
        self._lock = threading.RLock()  # a signal handler may close
        self.connection = ClientConnection(
            self._address, self._greet, self._on_frame, self._heartbeat, parent
        )

    def after_fork(self) -> None:
        """In the child of a fork: be a client of its own."""
        self.connection.after_fork()
        for part in self._parts():
            part.after_fork()
        self._begin(self.connection)
        if self.closed:
            self.connection.close(0)

    def _address(self) -> str:
        if self._socket is not None:
            given = self._socket
            return checked_address(given if "://" in given else f"ipc://{given}")
        return router_address()

    # --- the answer to a request ----------------------------------------------------------

    def answer(
        self, asked: BrokerRequest, pending: PendingRequest, seconds: float, *, came: bool
    ) -> dict[str, Any]:
        """
        Return or raise what became of a request. `seconds`: how long its caller waited at most;
        `came`: that was not in vain.
        """
        written = pending.written if came else self.connection.drop_request(pending)
        # The answer may have come between the two.
        if pending.error is not None:
            raise pending.error
        if pending.answer is not None:
            return pending.answer
        if not written and came:
            raise NotRunning(CLOSED)
        within = "before this client was closed" if came else f"within {seconds:g} s"
        raise self._late(asked, within, written)

    def _late(self, asked: BrokerRequest, within: str, written: bool) -> WakebusError:
        from wakebus.broker.denial import not_running

        where, id, waited = self.connection.address, asked.id, asked.waited
        if not written and not waited:
            text = f"no broker answers at {where} {within}"
            return not_running(where, text, "nothing was sent")
        if id:
            text = f"the broker gave no receipt {within}; it may have stored {id}"
            return Undecided(text, id=id)
        if waited:
            return TimedOut(f"no word of {waited} {within}", id=waited, state="unknown")
        return TimedOut(f"the broker at {where} did not answer `{asked.verb}` {within}")

    # --- the parts ------------------------------------------------------------------------

    def _parts(self) -> "list[Registrations | TopicPlane]":
        return [part for part in (self._registrations, self._topics) if part is not None]

    def registrations(self) -> "Registrations":
        """Return the names that are held. Raises NotRunning once closed."""
        with self._lock:
            self._check_open()
            if self._registrations is None:
                from wakebus.broker.client.registrations import Registrations

                self._registrations = Registrations(self.connection, self.instance, self._run)
            return self._registrations

    def names(self) -> dict[str, str]:
        """Return the names held, in order: what was asked for, and as which it was granted."""
        return self._registrations.names() if self._registrations else {}

    def _own_name(self) -> str | None:
        return self._registrations.own_name() if self._registrations else None

    def _in_hand(self) -> "Delivery | None":
        return self._registrations.in_hand() if self._registrations else None

    def _give_up(self, name: str) -> str:
        return self._registrations.give_up(name) if self._registrations else name

    def topics(self) -> "TopicPlane":
        """Return what publishes and subscribes. Raises NotRunning once closed."""
        return self._topics or self._open_topics()

    def _open_topics(self) -> "TopicPlane":
        from wakebus.broker.pubsub.topic_plane import TopicPlane

        with self._lock:
            self._check_open()
            if self._topics is None:
                self._topics = TopicPlane(self.connection, self._topic_addresses)
            return self._topics

    def _topic_addresses(self) -> "TopicAddresses":
        return topic_addresses(self.connection.address, explicit=self._socket is not None)

    @property
    def dropped(self) -> int:
        """Events that could not go out."""
        return self._topics.dropped if self._topics else 0

    @property
    def missed(self) -> int:
        """Events that the subscriptions have missed."""
        return self._topics.missed if self._topics else 0

    # --- what the connection tells (IO thread) --------------------------------------------

    def _greet(self) -> None:
        for part in self._parts():
            part.greet()

    def _on_frame(self, verb: str, payload: dict[str, Any]) -> None:
        if self._registrations is not None:
            self._registrations.on_frame(verb, payload)

    def _heartbeat(self) -> None:
        facts = self._topics.heartbeat() if self._topics else {}
        if self._registrations is not None and self._registrations.heartbeat(facts):
            return
        if facts.get("missed"):  # without a name: answered `not_registered`, and counted
            self.connection.send_heartbeat({**facts, "instance": self.instance})

    # --- the end --------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self.closed:
            raise NotRunning(CLOSED)

    def close(self) -> None:
        """Give up all names and the connection; never hangs. Safe to call twice."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
        for part in reversed(self._parts()):
            part.close(CLOSE_S / 2)
        self.connection.close(CLOSE_S)
