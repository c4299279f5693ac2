"""
The client: send, ask, register, list (PROTOCOL.md, seen from the other side).

    with Client() as bus:
        bus.send("worker-alpha", "run the tests", type="directive", sender="ci")
        answer = bus.ask("worker-alpha", "done?", wait=60)

Rule 1: threads may share one client. Rule 2: a call that talks to the broker ends within its
timeout, whatever the broker does. Rule 3: while this process lives, a handler is called at most
once per message.
"""

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from wakebus.broker import message as messages
from wakebus.broker import paths
from wakebus.broker.errors import BadMessage, NotRunning, TimedOut, Undecided
from wakebus.broker.message import DEFAULT_TTL_S, Message
from wakebus.broker.transport import Transport

CLOSE_S = 2.0


class Receipt(NamedTuple):
    """
    What the sender is told.

    `state`: `queued` (committed to disk), `delivered` (the receiver's client holds it), `handled`
    (its ack is committed; `outcome` says how it went) or `dead` (given up; `reason` says why).
    """

    id: str
    state: str
    to: str = ""
    live: bool = False
    ahead: int = 0
    duplicate: bool = False
    outcome: Mapping[str, Any] | None = None
    reason: str = ""


class Answer(NamedTuple):
    """The receipt of what was asked and the answer; None: handled, and there will be none."""

    receipt: Receipt
    message: Message | None


class Client:
    """
    A connection to the broker of this machine.

    `socket`: path of the broker's socket, default from `bus/address.json`. `timeout`: seconds
    that a call waits for its receipt. Raises NotRunning when no broker has started here.
    """

    def __init__(self, socket: str | None = None, *, timeout: float = 5.0) -> None:
        self.timeout = timeout
        self.instance = secrets.token_hex(8)
        self._socket = socket
        self._receiving: Any = None  # made by the first `register`
        self._lock = threading.Lock()
        self._closed = False
        self._transport = Transport(self._address, self._greet, self._on_frame, self._beat)

    def _address(self) -> str:
        if self._socket is not None:
            return self._socket if "://" in self._socket else f"ipc://{self._socket}"
        return str(paths.read_address(paths.bus_dir())["router"])

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
        receipt = _receipt(reply, to)
        if wait is None or receipt.state in ("handled", "dead"):
            return receipt
        return self.wait(receipt.id, wait)

    def wait(self, id: str, wait: float) -> Receipt:
        """Return the receipt of message `id` once it is handled or dead, or raise TimedOut."""
        return _receipt(self._wait(id, "handled", wait), "")

    def wait_answer(self, id: str, wait: float) -> Answer:
        """Return the answer to message `id`, or raise TimedOut."""
        reply = self._wait(id, "answer", wait)
        found = reply.get("answer")
        return Answer(_receipt(reply, ""), messages.from_wire(found) if found else None)

    def ask(self, to: str, body: str | Mapping[str, Any], *, wait: float, **fields: Any) -> Answer:
        """Send `body` as `send` does (type `directive` if none is given); wait for the answer."""
        if "type" not in fields and (isinstance(body, str) or "type" not in body):
            fields["type"] = "directive"
        started = time.monotonic()
        receipt = self.send(to, body, asks=True, **fields)
        return self.wait_answer(receipt.id, max(0.0, wait - (time.monotonic() - started)))

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
        handler: Callable[[Any], Any],
        *,
        takeover: bool = False,
        on_lost: Callable[[str], None] | None = None,
    ) -> int:
        """
        Hold endpoint `name`: `handler(delivery)` is called for its messages; return the epoch.

        Handlers run in threads, one per lane. What a handler returns is the outcome: a mapping
        (<= 16 KiB) or None for handled, `Later` or `Refusal`; an exception becomes a Refusal.
        `on_lost(why)`: the name went to another client for good. Raises NameTaken, BadName.
        """
        from wakebus.broker.receiver import Receiver

        with self._lock:
            if self._receiving is None:
                self._receiving = Receiver(self._transport, self.instance)
        return int(self._receiving.register(name, handler, takeover, on_lost, self.timeout))

    def unregister(self, name: str) -> None:
        """Give `name` up; what its handlers have not finished goes back to the broker."""
        self._call("unregister", {"name": self._receiving.forget(name)}, None)

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
        if not pending.wait(seconds):
            written = self._transport.drop(pending)
            if not pending.wait(0):  # the answer may have come in between
                raise self._late(verb, seconds, written, id, waited)
        if pending.error is not None:
            raise pending.error
        if pending.answer is None:
            raise NotRunning("this client is closed")
        return pending.answer

    def _late(
        self, verb: str, seconds: float, written: bool, id: str, waited: str
    ) -> NotRunning | Undecided | TimedOut:
        where = self._transport.address
        if not written:
            return NotRunning(f"no broker answers at {where} ({seconds:g} s); nothing was sent")
        if id:
            text = f"the broker gave no receipt within {seconds:g} s; it may have stored {id}"
            return Undecided(text, id=id)
        if waited:
            return TimedOut(f"no word of {waited} within {seconds:g} s", id=waited, state="unknown")
        return TimedOut(f"the broker at {where} did not answer `{verb}` within {seconds:g} s")

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


def _receipt(reply: dict[str, Any], to: str) -> Receipt:
    try:
        return Receipt(
            reply["id"],
            reply["state"],
            reply.get("to", to),
            bool(reply.get("live")),
            int(reply.get("ahead", 0)),
            bool(reply.get("duplicate")),
            reply.get("outcome"),
            str(reply.get("reason") or ""),
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise BadMessage(f"the broker's receipt is not one: {exc}") from exc
