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
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from wakebus.broker import message as messages
from wakebus.broker import paths
from wakebus.broker.errors import NotRunning, TimedOut, Undecided, WakebusError
from wakebus.broker.message import DEFAULT_TTL_S
from wakebus.broker.pending import CLOSED
from wakebus.broker.receipt import Answer as Answer
from wakebus.broker.receipt import Receipt as Receipt
from wakebus.broker.receipt import receipt
from wakebus.broker.transport import Transport

if TYPE_CHECKING:  # a sender does not load them
    from wakebus.broker.delivery import Delivery
    from wakebus.broker.outcome import Outcome
    from wakebus.broker.receiver import Receiver

CLOSE_S: Final = 2.0


class Client:
    """
    A connection to the broker of this machine.

    `socket`: path of the broker's socket, default from `bus/address.json`. `timeout`: seconds
    that a call waits for its receipt. Raises NotRunning when no broker has started here.
    """

    def __init__(self, socket: str | None = None, *, timeout: float = 5.0) -> None:
        self.timeout = timeout
        self.instance = os.urandom(8).hex()  # not by `secrets`: it loads OpenSSL
        self._socket = socket
        self._receiving: Receiver | None = None  # made by the first `register`
        self._lock = threading.RLock()  # a signal handler may close
        self._closed = False
        self._transport = Transport(self._address, self._greet, self._on_frame, self._beat)

    def _address(self) -> str:
        if self._socket is not None:
            return self._socket if "://" in self._socket else f"ipc://{self._socket}"
        return paths.router_address()

    # --- sending --------------------------------------------------------------------------

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
    ) -> Receipt:
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
            "id": id or messages.new_id(now),
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
        reply = self._call("send", payload, timeout, id=checked.id)
        stored = receipt(reply, to)
        if wait is None or stored.state in ("handled", "dead"):
            return stored
        return self.wait(stored.id, wait)._replace(to=to, duplicate=stored.duplicate)

    def wait(self, id: str, wait: float) -> Receipt:
        """Return the receipt of message `id` once it is handled or dead, or raise TimedOut."""
        return receipt(self._wait(id, "handled", wait))

    def wait_answer(self, id: str, wait: float) -> Answer:
        """Return the answer to message `id`, or raise TimedOut."""
        reply = self._wait(id, "answer", wait)
        found = reply.get("answer")
        return Answer(receipt(reply), messages.from_wire(found) if found else None)

    def ask(self, to: str, body: str | Mapping[str, Any], *, wait: float, **fields: Any) -> Answer:
        """
        Send `body` as `send` does (type `directive` if none is given); wait for the answer.

        `wait`: seconds for all of it, though never less than `timeout` for the receipt. Raises as
        `send` does; TimedOut (`data["id"]`) when it is stored and no answer came: `wait_answer`
        waits on.
        """
        if "type" not in fields and (isinstance(body, str) or "type" not in body):
            fields["type"] = "directive"
        started = time.monotonic()
        stored = self.send(to, body, asks=True, **fields)
        return self.wait_answer(stored.id, max(0.0, wait - (time.monotonic() - started)))

    def _wait(self, id: str, state: str, wait: float) -> dict[str, Any]:
        payload = {"id": id, "state": state, "timeout": wait}
        # The broker ends the wait; the second is for the way back.
        return self._call("wait", payload, wait + 1.0, waited=id)

    def _own_name(self) -> str | None:
        return self._receiving.own_name() if self._receiving else None

    # --- receiving ------------------------------------------------------------------------

    def register(
        self,
        name: str,
        handler: "Callable[[Delivery], Outcome]",
        *,
        takeover: bool = False,
        on_lost: Callable[[str], None] | None = None,
    ) -> int:
        """
        Hold endpoint `name`: `handler(delivery)` is called for its messages; return the epoch.

        Handlers run in threads, one per lane. What a handler returns is the outcome: a mapping
        (<= 16 KiB) or None for handled, `Later` or `Refusal`; an exception becomes a Refusal.
        `on_lost(why)`: the name went to another client for good. Registered again, also by
        itself after a broker's restart, the client keeps what its handlers have in hand.

        Raises NameTaken, BadName, NotRunning or TimedOut.
        """
        from wakebus.broker.receiver import Receiver

        with self._lock:
            if self._closed:
                raise NotRunning(CLOSED)
            if self._receiving is None:
                self._receiving = Receiver(self._transport, self.instance)
        return self._receiving.register(name, handler, takeover, on_lost, self.timeout)

    def unregister(self, name: str) -> None:
        """
        Give `name` up; what its handlers have not finished goes back to the broker.

        Raises NotRegistered when this client does not hold it.
        """
        if self._receiving is not None:
            self._receiving.forget(name)
        self._call("unregister", {"name": name}, None)

    # --- asking the broker ----------------------------------------------------------------

    def list(self) -> Sequence[dict[str, Any]]:
        """Return the known endpoints: name, state, holder's pid, epoch, queued, in_hand …"""
        found: Sequence[dict[str, Any]] = self._call("list", {}, None)["endpoints"]
        return found

    def declare(self, name: str) -> None:
        """Make `name` known, so that messages for it are kept before anybody registers it."""
        self._call("declare", {"name": name}, None)

    def forget(self, name: str) -> None:
        """Make `name` unknown again. Raises Refused while it is held or has messages."""
        self._call("forget", {"name": name}, None)

    def trace(self, id: str) -> Sequence[dict[str, Any]]:
        """Return message `id` and all that hangs together with it, each with its steps."""
        found: Sequence[dict[str, Any]] = self._call("trace", {"id": id}, None)["messages"]
        return found

    def read(self, id: str) -> messages.Message:
        """Return message `id` as it is stored. Raises UnknownId."""
        return messages.from_wire(self._call("read", {"id": id}, None)["message"])

    def status(self) -> dict[str, Any]:
        """Return the broker's own state."""
        return self._call("status", {}, None)

    # --- the connection -------------------------------------------------------------------

    def _call(
        self,
        verb: str,
        payload: dict[str, Any],
        timeout: float | None,
        *,
        id: str = "",
        waited: str = "",
    ) -> dict[str, Any]:
        seconds = self.timeout if timeout is None else timeout
        pending = self._transport.request(verb, payload)
        came = pending.wait(seconds)
        written = pending.written if came else self._transport.drop(pending)
        # The answer may have come between the two.
        if pending.error is not None:
            raise pending.error
        if pending.answer is not None:
            return pending.answer
        within = "before this client was closed" if came else f"within {seconds:g} s"
        if not written and came:
            raise NotRunning(CLOSED)
        raise self._late(verb, within, written, id, waited)

    def _late(self, verb: str, within: str, written: bool, id: str, waited: str) -> WakebusError:
        where = self._transport.address
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

    def _on_frame(self, verb: str, payload: dict[str, Any]) -> None:
        if self._receiving is not None:
            self._receiving.on_frame(verb, payload)

    def _beat(self) -> None:
        if self._receiving is not None:
            self._receiving.beat()

    def close(self) -> None:
        """Give up all names and the connection; never hangs. Safe to call twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if self._receiving is not None:
            self._receiving.leave(CLOSE_S / 2)
        self._transport.close(CLOSE_S)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
