"""
The client for threads: send, ask, register, publish, subscribe, list.

    with Client() as bus:
        bus.send("worker-alpha", "run the tests", type="directive", sender="ci")
        answer = bus.ask("worker-alpha", "done?", wait=60)

Rule 1: threads may share one client. Rule 2: a call that talks to the broker ends within its
timeout, whatever the broker does. Rule 3: while this process lives, a handler is called at most
once per message.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from wakebus.broker.client.calls import BrokerRequest, Call, Calls, PagedCall, ReplyRow
from wakebus.broker.client.core import ClientCore, ClientStatus
from wakebus.broker.errors import WakebusError

if TYPE_CHECKING:  # a sender does not load them
    from wakebus.broker.client.delivery import Delivery
    from wakebus.broker.protocol.outcome import Outcome
    from wakebus.broker.pubsub.subscription import OnEvent, OnGap, Subscription

P = ParamSpec("P")
T = TypeVar("T")


def _sync_call(
    call: Callable[Concatenate[Calls, P], Call[T]],
) -> Callable[Concatenate["Client", P], T]:
    """Return a call as a method that waits for its answers."""

    @wraps(call)
    def called(self: "Client", /, *args: P.args, **fields: P.kwargs) -> T:
        return self._run(call(self._core.calls, *args, **fields))

    return called


def _sync_pages(
    call: Callable[Concatenate[Calls, P], PagedCall],
) -> Callable[Concatenate["Client", P], Iterator[ReplyRow]]:
    """Return a call that yields rows as a method that returns their iterator."""

    @wraps(call)
    def called(self: "Client", /, *args: P.args, **fields: P.kwargs) -> Iterator[ReplyRow]:
        return self._rows(call(self._core.calls, *args, **fields))

    return called


class Client(ClientStatus):
    """
    A connection to the broker of this machine.

    `socket`: path of the broker's socket, default from `bus/address.json`. `timeout`: seconds
    that a call waits for its receipt. Raises NotRunning when no broker has started here.
    """

    def __init__(self, socket: str | None = None, *, timeout: float = 5.0) -> None:
        self.timeout = timeout
        super().__init__(ClientCore(socket))

    # --- what is asked of the broker: calls.py says what each call takes, returns, raises ---

    send = _sync_call(Calls.send)
    ask = _sync_call(Calls.ask)
    wait = _sync_call(Calls.wait)
    wait_answer = _sync_call(Calls.wait_answer)
    reply = _sync_call(Calls.reply)
    cancel = _sync_call(Calls.cancel)
    resume = _sync_call(Calls.resume)
    read = _sync_call(Calls.read)
    trace = _sync_call(Calls.trace)
    list = _sync_call(Calls.list)
    declare = _sync_call(Calls.declare)
    forget = _sync_call(Calls.forget)
    inbox = _sync_pages(Calls.inbox)
    dead_letters = _sync_pages(Calls.dead_letters)
    retry = _sync_call(Calls.retry)
    purge = _sync_call(Calls.purge)
    status = _sync_call(Calls.status)
    stop_broker = _sync_call(Calls.stop_broker)
    unregister = _sync_call(Calls.unregister)

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
        (<= 16 KiB) or None for handled, `Later` or `Refusal`; an exception becomes a Refusal, and
        is logged by `wakebus.client`.
        `on_lost(why)`: the name went to another client for good. Registered again, also by
        itself after a broker's restart, the client keeps what its handlers have in flight.
        `suffix`: while another client has `name`, hold `name-2`, `name-3` …; `names` tells which.
        That name is ephemeral: it ends 60 s after this client, with what waits for it.

        Raises NameTaken, BadName, NotRunning or TimedOut.
        """
        return self._core.registrations().register(
            name, handler, on_lost, self.timeout, takeover=takeover, suffix=suffix
        )

    # --- events (EVENTS.md) ---------------------------------------------------------------

    def publish(
        self,
        topic: str,
        fields: Mapping[str, Any] | None = None,
        *,
        confirm: bool = False,
        token: str | None = None,
    ) -> None:
        """
        Publish an event: `fields`, with `type`, `ts` and `src` where they are not given.

        Best effort, any thread, never waits; only a client's first publish waits, at most
        `timeout` seconds, for the broker and its subscriptions. While the broker is away events
        are dropped and counted in `dropped`; once it is back they go out again.
        `confirm`: return once the broker has handed the event on; for programs that end at once.
        `token`, with `confirm`: of the turn that publishes; a loop by way of events is seen by it.

        Raises BadTopic, Refused (`bus.**`), BadMessage, TooBig (64 KiB); NotRunning until the
        broker has been there once. With `confirm` also NotNow, and Undecided: written, but the
        broker said nothing in time.
        """
        if confirm:
            self._run(self._core.calls.publish(topic, fields, token))
        else:
            self._core.topics().publish(topic, fields, self.timeout)

    def subscribe(
        self,
        pattern: str | Iterable[str],
        handler: "OnEvent",
        *,
        on_gap: "OnGap | None" = None,
    ) -> "Subscription":
        """
        Have `handler(event)` called for each event whose topic matches a pattern; once for each.

        Patterns: `*` is one segment, `**` zero or more. Returns when the subscription works;
        `close()` ends it. All handlers of a client run in one thread: a slow one makes its own
        subscription miss events (`on_gap` is told how many, just before the next event of the same
        publisher and topic), and lets the others of this client wait.
        After a restart of the broker it works again by itself. `bus.**` comes from the broker only.

        Raises BadTopic, NotRunning, TimedOut.
        """
        return self._core.topics().subscribe(pattern, handler, on_gap, self.timeout)

    # --- the connection -------------------------------------------------------------------

    def connected(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for a broker to be there; return whether one is."""
        return self._core.connection.connected(timeout)

    def close(self) -> None:
        """Give up all names and the connection; never hangs. Safe to call twice."""
        self._core.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- how a call is run ----------------------------------------------------------------

    def _run(self, call: Call[T]) -> T:
        """Do what a call asks for, waiting for each answer; return its result."""
        try:
            asked = next(call)
            while True:
                try:
                    answer = self._answer(asked)
                except WakebusError as exc:
                    asked = call.throw(exc)
                else:
                    asked = call.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    def _rows(self, call: PagedCall) -> Iterator[ReplyRow]:
        """Return an iterator of the rows; the first question is asked at once."""
        found = next(call, None)
        answer = self._answer(found) if isinstance(found, BrokerRequest) else None
        return iter(()) if found is None else self._rest(call, answer)

    def _rest(self, call: PagedCall, answer: dict[str, Any] | None) -> Iterator[ReplyRow]:
        while True:
            try:
                found = call.send(answer)
            except StopIteration:
                return
            if isinstance(found, BrokerRequest):
                answer = self._answer(found)
            else:
                answer = None
                yield found

    def _answer(self, asked: BrokerRequest) -> dict[str, Any]:
        seconds = self.timeout if asked.timeout is None else asked.timeout
        pending = self._core.connection.request(asked.verb, asked.payload)
        return self._core.answer(asked, pending, seconds, came=pending.wait(seconds))
