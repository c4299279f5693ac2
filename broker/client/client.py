"""
The client: send, ask, register, list (PROTOCOL.md, seen from the other side).

    with Client() as bus:
        bus.send("worker-alpha", "run the tests", type="directive", sender="ci")
        answer = bus.ask("worker-alpha", "done?", wait=60)

Rule 1: threads may share one client. Rule 2: a call that talks to the broker ends within its
timeout, whatever the broker does. Rule 3: while this process lives, a handler is called at most
once per message.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from wakebus.broker.address import router_address
from wakebus.broker.client.calls import Ask, Steps, asks, steps_of, waiting
from wakebus.broker.client.connection import Transport
from wakebus.broker.client.pending_request import Pending
from wakebus.broker.errors import CLOSED, NotRunning, TimedOut, Undecided, WakebusError
from wakebus.broker.protocol import message as messages
from wakebus.broker.protocol.message import DEFAULT_TTL_S
from wakebus.broker.protocol.receipt import Answer as Answer
from wakebus.broker.protocol.receipt import Receipt as Receipt
from wakebus.broker.protocol.receipt import receipt
from wakebus.broker.pubsub.topic_plane import Events
from wakebus.broker.system.fork_safety import call_after_fork

if TYPE_CHECKING:  # a sender does not load them
    from wakebus.broker.client.delivery import Delivery
    from wakebus.broker.client.registrations import Receiver
    from wakebus.broker.protocol.outcome import Outcome

CLOSE_S: Final = 2.0


class Client(Events):
    """
    A connection to the broker of this machine.

    `socket`: path of the broker's socket, default from `bus/address.json`. `timeout`: seconds
    that a call waits for its receipt. Raises NotRunning when no broker has started here.
    """

    def __init__(self, socket: str | None = None, *, timeout: float = 5.0) -> None:
        self.timeout = timeout
        self._socket = socket
        self._closed = False
        self._begin()
        call_after_fork(self)

    def _begin(self, after: Transport | None = None) -> None:
        self.instance = os.urandom(8).hex()  # not by `secrets`: it loads OpenSSL
        self._ids = messages.Ids()
        self._receiving: Receiver | None = None  # made by the first `register`
        self._lock = threading.RLock()  # a signal handler may close
        told = (self._address, self._greet, self._on_frame, self._beat)
        self._transport = Transport(*told, after)

    def after_fork(self) -> None:
        """In the child of a fork: be a client of its own (forking.py)."""
        self._transport.after_fork()
        if self._receiving is not None:
            self._receiving.after_fork()
        self._fork_events()
        self._begin(self._transport)
        if self._closed:
            self._transport.close(0)

    def _address(self) -> str:
        if self._socket is not None:
            return self._socket if "://" in self._socket else f"ipc://{self._socket}"
        return router_address()

    # --- sending --------------------------------------------------------------------------

    @asks
    def send(
        self,
        to: str,
        body: str | Mapping[str, Any],
        *,
        type: str | None = None,
        channel: str | None = None,
        sender: str | None = None,
        session: str | None = None,
        wake: str | None = None,
        reply_to: str | None = None,
        cause: str | None = None,
        hops: int = 0,
        path: tuple[str, ...] = (),
        key: str | None = None,
        id: str | None = None,
        ttl_s: float = DEFAULT_TTL_S,
        queue: bool = False,
        asks: bool = False,
        token: str | None = None,
        wait: float | None = None,
        timeout: float | None = None,
    ) -> Steps[Receipt]:
        """
        Send `body` (a text, or fields) to endpoint `to`; return the receipt.

        `wait`: seconds to wait until it is handled; the receipt then carries the outcome.
        `queue`: keep it although nobody ever registered `to`. `id`: send again what was
        undecided. `token`: a turn's token, which proves sender and cause.

        Raises Refused (and its kinds), NotNow, NotRunning (nothing was written), Undecided
        (written, no receipt: send again with its id), TimedOut (stored, not handled in time).
        """
        now = time.time()
        fields: dict[str, Any] = {"text": body} if isinstance(body, str) else dict(body)
        fields |= {k: v for k, v in (("type", type), ("channel", channel)) if v is not None}
        message = {
            "id": id or self._ids.new(now),
            "ts": now,
            "from": sender or self._own_name() or "cli",
            "to": to,
            "body": fields,
            "ttl_s": ttl_s,
            "hops": hops,
            "path": list(path),
            **_given(session=session, wake=wake, reply_to=reply_to, cause=cause, key=key),
        }
        checked = messages.from_wire(message)
        payload = {"message": checked.to_wire(), **_given(token=token)}
        payload |= {k: True for k, on in (("queue", queue), ("asks", asks)) if on}
        stored = receipt((yield Ask("send", payload, timeout, id=checked.id)), to)
        if wait is None or stored.state in ("handled", "dead"):
            return stored
        reply = yield waiting(stored.id, "handled", wait)
        return receipt(reply)._replace(to=to, duplicate=stored.duplicate)

    @asks
    def wait(self, id: str, wait: float) -> Steps[Receipt]:
        """Return the receipt of message `id` once it is handled or dead, or raise TimedOut."""
        return receipt((yield waiting(id, "handled", wait)))

    @asks
    def wait_answer(self, id: str, wait: float) -> Steps[Answer]:
        """Return the answer to message `id`, or raise TimedOut."""
        reply = yield waiting(id, "answer", wait)
        found = reply.get("answer")
        return Answer(receipt(reply), messages.from_wire(found) if found else None)

    @asks
    def ask(
        self, /, to: str, body: str | Mapping[str, Any], *, wait: float, **fields: Any
    ) -> Steps[Answer]:
        """
        Send `body` as `send` does (type `directive` if none is given); wait for the answer.

        `wait`: seconds for all of it, though never less than `timeout` for the receipt. Raises as
        `send` does; TimedOut (`data["id"]`) when it is stored and no answer came: `wait_answer`
        waits on.
        """
        if "type" not in fields and (isinstance(body, str) or "type" not in body):
            fields["type"] = "directive"
        started = time.monotonic()
        stored = yield from steps_of(Client.send)(self, to, body, asks=True, **fields)
        left = max(0.0, wait - (time.monotonic() - started))
        return (yield from steps_of(Client.wait_answer)(self, stored.id, left))

    def _own_name(self) -> str | None:
        return self._receiving.own_name() if self._receiving else None

    # --- receiving ------------------------------------------------------------------------

    def register(
        self,
        name: str,
        handler: "Callable[[Delivery], Outcome]",
        *,
        takeover: bool = False,
        suffix: bool = False,
        on_lost: Callable[[str], None] | None = None,
    ) -> int:
        """
        Hold endpoint `name`: `handler(delivery)` is called for its messages; return the epoch.

        Handlers run in threads, one per lane. What a handler returns is the outcome: a mapping
        (<= 16 KiB) or None for handled, `Later` or `Refusal`; an exception becomes a Refusal.
        `on_lost(why)`: the name went to another client for good. Registered again, also by
        itself after a broker's restart, the client keeps what its handlers have in hand.
        `suffix`: while another client has `name`, hold `name-2`, `name-3` …; `names` tells which.
        That name is ephemeral: it ends 60 s after this client, with what waits for it.

        Raises NameTaken, BadName, NotRunning or TimedOut.
        """
        with self._lock:
            if self._closed:
                raise NotRunning(CLOSED)
            if self._receiving is None:
                self._receiving = self._receiver()
        options = {"takeover": takeover, "suffix": suffix}
        return self._receiving.register(name, handler, on_lost, self.timeout, **options)

    @property
    def names(self) -> dict[str, str]:
        """The names held, in order: what was asked for, and as which it was granted."""
        return self._receiving.names() if self._receiving else {}

    def _receiver(self) -> "Receiver":
        from wakebus.broker.client.registrations import Receiver

        return Receiver(self._transport, self.instance)

    @asks
    def unregister(self, name: str) -> Steps[None]:
        """
        Give `name` up, asked for or granted; what its handlers have not finished goes back.

        Raises NotRegistered when this client does not hold it.
        """
        if self._receiving is not None:
            held = self._receiving.forget(name)
            name = held.name if held else name
        yield Ask("unregister", {"name": name})

    # --- the connection -------------------------------------------------------------------

    def _call(self, ask: Ask) -> dict[str, Any]:
        pending = self._transport.request(ask.verb, ask.payload)
        return self._answer(ask, pending, came=pending.wait(self._seconds(ask)))

    def _seconds(self, ask: Ask) -> float:
        return self.timeout if ask.timeout is None else ask.timeout

    def _answer(self, ask: Ask, pending: Pending, *, came: bool) -> dict[str, Any]:
        """Return or raise what became of a request; `came`: not given up by its caller."""
        written = pending.written if came else self._transport.drop(pending)
        # The answer may have come between the two.
        if pending.error is not None:
            raise pending.error
        if pending.answer is not None:
            return pending.answer
        within = "before this client was closed" if came else f"within {self._seconds(ask):g} s"
        if not written and came:
            raise NotRunning(CLOSED)
        raise self._late(ask, within, written)

    def _late(self, ask: Ask, within: str, written: bool) -> WakebusError:
        where = self._transport.address
        verb, id, waited = ask.verb, ask.id, ask.waited
        if not written and not waited:
            return NotRunning(f"no broker answers at {where} {within}; nothing was sent")
        if id:
            text = f"the broker gave no receipt {within}; it may have stored {id}"
            return Undecided(text, id=id)
        if waited:
            return TimedOut(f"no word of {waited} {within}", id=waited, state="unknown")
        return TimedOut(f"the broker at {where} did not answer `{verb}` {within}")

    @property
    def address(self) -> str:
        """Where the broker is looked for."""
        return self._transport.address

    def connected(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for a broker to be there; return whether one is."""
        return self._transport.connected(timeout)

    def _greet(self) -> None:
        if self._receiving is not None:
            self._receiving.greet()
        self._greet_events()

    def _on_frame(self, verb: str, payload: dict[str, Any]) -> None:
        if self._receiving is not None:
            self._receiving.on_frame(verb, payload)

    def _beat(self) -> None:
        facts = self._beat_events()
        if self._receiving is None or not self._receiving.beat(facts):
            self._tell_missed(facts)

    def close(self) -> None:
        """Give up all names and the connection; never hangs. Safe to call twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._close_events(CLOSE_S / 2)
        if self._receiving is not None:
            self._receiving.leave(CLOSE_S / 2)
        self._transport.close(CLOSE_S)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
