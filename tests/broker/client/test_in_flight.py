"""
Deliveries in flight and their acks: the races that a real broker seldom shows,
played by a ROUTER that says what the test tells it to.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fakes.broker import until
from fakes.router import Router
from wakebus.broker import Client, Delivery, Later, Outcome, Refusal
from wakebus.broker.client.connection import ClientConnection
from wakebus.broker.client.handler_pool import HandlerPool
from wakebus.broker.client.in_flight import MAX_UNSAID, InFlight
from wakebus.broker.client.registrations import Registrations
from wakebus.broker.errors import Fenced, NotRegistered, NotRunning


class Handler:
    """A handler that returns when it is told to, and what it is told."""

    def __init__(self) -> None:
        self.called: list[Delivery] = []
        self.outcome: Outcome = {"done": True}
        self.act: Callable[[Delivery], Any] = lambda _: None
        self.go = threading.Event()
        self.go.set()

    def __call__(self, delivery: Delivery) -> Outcome:
        self.called.append(delivery)
        self.act(delivery)
        self.go.wait(10)
        return self.outcome

    @property
    def ids(self) -> list[str]:
        return [delivery.message.id for delivery in self.called]


@pytest.fixture
def router(bus_root: Any) -> Iterator[Router]:
    found = Router(bus_root / "s")
    yield found
    found.close()


@pytest.fixture
def client(router: Router) -> Iterator[Client]:
    with Client(str(router.path), timeout=10) as found:
        assert found.connected(10)
        yield found
        router.close()
        until(lambda: not found.connected(0))


@pytest.fixture
def handler(client: Client, router: Router) -> Iterator[Handler]:
    """Registered as `w`, epoch 1."""
    found = Handler()
    register(client, router, found)
    yield found
    found.go.set()


def register(client: Client, router: Router, handler: Handler, **grant: Any) -> dict[str, Any]:
    with ThreadPoolExecutor(1) as pool:
        granted = pool.submit(client.register, "w", handler)
        said = router.grant(**grant)
        granted.result(10)
    return said


def unregister_while_it_runs(router: Router, client: Client, handler: Handler) -> None:
    """Give the name up while `handler` has `m1`."""
    handler.go.clear()
    router.deliver("w", "m1")
    until(lambda: handler.called)
    with ThreadPoolExecutor(1) as pool:
        left = pool.submit(client.unregister, "w")
        router.ok(router.next())
        left.result(10)


def begin(delivery: Delivery, begun: threading.Event, token: str | None = None) -> None:
    delivery.started(token)
    begun.set()


def registrations(client: Client) -> Registrations:
    return client._core.registrations()


def held(client: Client) -> list[str]:
    in_flight: InFlight = registrations(client)._in_flight
    return [item["id"] for item in in_flight.holding("w")]


# --- the usual way ----------------------------------------------------------------------------


def test_a_delivery_is_held_handled_and_let_go(
    router: Router, client: Client, handler: Handler
) -> None:
    """`got` at once, `handled` with the outcome; let go once the broker has confirmed that."""
    router.deliver("w", "m1")
    got, handled = router.next(without=("beat",)), router.next(without=("beat",))
    assert (got.verb, handled.verb) == ("got", "handled")
    assert handled.payload == {"to": "w", "id": "m1", "epoch": 1, "outcome": {"done": True}}
    assert held(client) == ["m1"]
    router.ok(handled)
    until(lambda: not held(client))


def test_what_the_broker_tells_of_a_delivery_reaches_the_handler(
    router: Router, handler: Handler
) -> None:
    """Attempt, redelivery, whether work had begun, who asks: as it was said."""
    said = {"attempt": 3, "redelivered": True, "started": True, "asks": True, "claimed": True}
    router.deliver("w", "m1", **said, sender_known=True)
    until(lambda: handler.called)
    one = handler.called[0]
    assert (one.attempt, one.redelivered, one.started_before) == (3, True, True)
    assert (one.asks, one.claimed, one.sender_known) == (True, True, True)
    assert (one.message.id, one.message.sender, one.name) == ("m1", "ci", "w")


def test_started_returns_when_it_is_stored(router: Router, handler: Handler) -> None:
    """The handler goes on only after the broker's word, and its token is passed on."""
    begun = threading.Event()
    handler.act = lambda d: begin(d, begun, "t" * 20)
    router.deliver("w", "m1")
    frame = router.next()
    assert (frame.verb, frame.payload["token"], frame.payload["hops"]) == ("started", "t" * 20, 0)
    assert not begun.wait(0.1)
    router.ok(frame)
    assert begun.wait(10)
    assert router.next().verb == "handled"


def test_take_more_asks_for_the_next_of_the_lane(
    router: Router, client: Client, handler: Handler
) -> None:
    """It does not wait, and a later registration tells of it."""
    handler.act = lambda d: d.take_more()
    handler.go.clear()
    router.deliver("w", "m1")
    frames = [router.next(without=("beat",)) for _ in range(2)]
    assert [frame.payload.get("more") for frame in frames] == [None, True]
    assert registrations(client)._in_flight.holding("w") == [{"id": "m1", "more": True}]


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), Unprintable()], ids=repr
)
def test_a_handler_that_fails_refuses(
    router: Router, handler: Handler, error: BaseException
) -> None:
    """Whatever it raises becomes the reason of a refusal, with the place; the thread lives on."""

    def fail(delivery: Delivery) -> None:
        raise error

    handler.act = fail
    for id in ("m1", "m2"):
        router.deliver("w", id)
        frame = router.next()
        assert frame.verb == "refused"
        assert type(error).__name__ in frame.payload["reason"]
        assert "test_in_flight.py:" in frame.payload["reason"]
        router.ok(frame)


@pytest.mark.parametrize("error", [NotRunning("x"), NotRegistered("x"), Fenced("x")])
def test_a_handler_whose_own_call_fails_refuses_too(
    router: Router, handler: Handler, error: Exception
) -> None:
    """A handler that sends, and may not, has failed; only `started` can say that it is not ours."""

    def fail(delivery: Delivery) -> None:
        raise error

    handler.act = fail
    router.deliver("w", "m1")
    assert router.next().verb == "refused"


def test_an_ack_that_the_broker_does_not_take_becomes_a_refusal(
    router: Router, client: Client, handler: Handler
) -> None:
    """A message must not block its lane because its outcome was not accepted."""
    router.deliver("w", "m1")
    router.err(router.next(), "too_big")
    frame = router.next()
    assert frame.verb == "refused"
    assert "too_big!" in frame.payload["reason"]
    router.ok(frame)
    until(lambda: not held(client))


def test_where_no_thread_can_start_it_comes_later(
    router: Router, handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process at its limit of threads puts messages off and keeps its connection."""

    def no_thread(self: HandlerPool, job: Any) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(HandlerPool, "run", no_thread)
        router.deliver("w", "m1")
        frame = router.next()
    assert (frame.verb, frame.payload["after_s"]) == ("later", 1.0)
    router.ok(frame)
    router.deliver("w", "m1")
    assert router.next().verb == "handled"


def test_what_is_no_delivery_is_passed_over(router: Router, handler: Handler) -> None:
    """A broken delivery harms nothing that follows."""
    router.say("deliver", {"to": "w", "epoch": 1})
    router.say("deliver", {"to": "w", "epoch": 1, "message": {"id": "?"}})
    router.deliver("w", "m1")
    assert router.next().payload["id"] == "m1"


# --- at most once while we live ---------------------------------------------------------------


def test_a_delivery_before_the_grant_is_handled_once(client: Client, router: Router) -> None:
    """The broker may deliver while its grant is on the way: nothing is dropped, nothing doubled."""
    handler = Handler()
    with ThreadPoolExecutor(1) as pool:
        granted = pool.submit(client.register, "w", handler)
        hello, claim = router.expect("hello", "register")
        router.deliver("w", "m1", epoch=4)
        handled = router.next()
        router.ok(hello)
        router.ok(claim, {"name": "w", "epoch": 4, "ended": []})
        assert granted.result(10) == 4
    router.deliver("w", "m1", epoch=4)
    assert (handled.verb, handled.payload["epoch"]) == ("handled", 4)
    assert router.quiet()
    assert handler.ids == ["m1"]


def test_a_delivery_of_an_older_registration_is_left_alone(
    router: Router, handler: Handler
) -> None:
    """Its epoch is not ours: the broker has given it to somebody else."""
    router.deliver("w", "m1", epoch=0)
    router.deliver("w", "m2", epoch=1)
    assert router.next().payload["id"] == "m2"
    assert handler.ids == ["m2"]


def test_what_is_in_hand_is_not_handled_again(
    router: Router, client: Client, handler: Handler
) -> None:
    """Delivered again while it is in progress, and while its ack is not confirmed: ignored."""
    handler.go.clear()
    router.deliver("w", "m1")
    until(lambda: handler.called)
    router.deliver("w", "m1")
    handler.go.set()
    frame = router.next()
    assert frame.verb == "handled"
    router.deliver("w", "m1")
    assert router.quiet()
    assert handler.ids == ["m1"]
    router.ok(frame)
    until(lambda: not held(client))


def test_a_reconnect_lists_what_is_in_hand_and_says_the_acks_again(
    router: Router, client: Client, handler: Handler
) -> None:
    """In progress or finished without a confirmed ack: listed first, then said again, in order."""
    for id in ("m1", "m2"):
        router.deliver("w", id)
        assert router.next().verb == "handled"
    handler.go.clear()
    router.deliver("w", "m3")
    until(lambda: len(handler.called) == 3)
    router.close()
    back = Router(router.path)
    try:
        said = back.grant()
        assert [item["id"] for item in said["holding"]] == ["m1", "m2", "m3"]
        frames = back.expect("handled", "handled")
        assert [frame.payload["id"] for frame in frames] == ["m1", "m2"]
        back.deliver("w", "m3")
        handler.go.set()
        assert back.next().payload["id"] == "m3"
        assert handler.ids == ["m1", "m2", "m3"]
    finally:
        back.close()


def test_what_the_broker_says_has_ended_is_let_go(
    router: Router, client: Client, handler: Handler
) -> None:
    """The old broker stored the ack and could not say so; the new one lists the id as ended."""
    router.deliver("w", "m1")
    assert router.next().verb == "handled"
    router.close()
    back = Router(router.path)
    try:
        back.grant(ended=["m1"])
        until(lambda: not held(client))
    finally:
        back.close()


def test_an_unknown_holder_registers_and_says_its_ack_again(
    router: Router, client: Client, handler: Handler
) -> None:
    """`not_registered`: the broker forgot this connection; the ack waits for the new grant."""
    router.deliver("w", "m1")
    router.err(router.next(), "not_registered")
    hello, claim = router.expect("hello", "register")
    assert [item["id"] for item in claim.payload["holding"]] == ["m1"]
    assert router.quiet(0.1)
    router.ok(hello)
    router.ok(claim, {"name": "w", "epoch": 9, "ended": []})
    frame = router.next()
    assert (frame.verb, frame.payload["epoch"]) == ("handled", 9)
    router.ok(frame)
    until(lambda: not held(client))


def test_many_unknown_acks_make_one_registration(
    router: Router, client: Client, handler: Handler
) -> None:
    """What waits for a grant waits for the same one."""
    for n in range(5):
        router.deliver("w", f"m{n}")
    frames = [router.next() for _ in range(5)]
    for frame in frames:
        router.err(frame, "not_registered")
    router.grant(epoch=2)
    again = [router.next() for _ in range(5)]
    assert {frame.payload["id"] for frame in again} == {f"m{n}" for n in range(5)}
    assert router.quiet()


def test_a_fenced_ack_of_a_name_that_is_ours_again_is_said_under_the_new_epoch(
    router: Router, client: Client, handler: Handler
) -> None:
    """The name was lost and won while the handler ran: its work counts, it is not blocked."""
    handler.go.clear()
    router.deliver("w", "m1", epoch=1)
    until(lambda: handler.called)
    router.close()
    back = Router(router.path)
    try:
        assert back.grant(epoch=3)["holding"] == [{"id": "m1", "more": False}]
        until(lambda: registrations(client).epoch_of("w") == 3)
        handler.go.set()
        frame = back.next()
        assert (frame.verb, frame.payload["epoch"]) == ("handled", 3)
    finally:
        back.close()


def test_an_ack_on_its_way_is_said_again_under_the_new_epoch(
    router: Router, client: Client, handler: Handler
) -> None:
    """What was written under the old epoch is fenced; the claim that follows settles it."""
    router.deliver("w", "m1", epoch=1)
    assert router.next().verb == "handled"
    router.close()
    back = Router(router.path)
    try:
        back.grant(epoch=3)
        frame = back.next()
        assert (frame.verb, frame.payload["epoch"]) == ("handled", 1)
        back.err(frame, "fenced")
        back.grant(epoch=3)
        frame = back.next()
        assert (frame.verb, frame.payload["epoch"]) == ("handled", 3)
    finally:
        back.close()


def test_an_ack_of_a_name_that_is_lost_for_good_is_let_go(
    router: Router, client: Client, handler: Handler
) -> None:
    """Another client has it: its late word is of no use, and nothing is kept for it."""
    handler.go.clear()
    router.deliver("w", "m1")
    until(lambda: handler.called)
    router.say("fenced", {"to": "w"})
    until(lambda: registrations(client).own_name() is None)
    handler.go.set()
    until(lambda: not held(client))
    assert router.quiet()


def test_work_in_hand_outlives_a_name_given_up(
    router: Router, client: Client, handler: Handler
) -> None:
    """Unregistered and registered again while a handler runs: listed, not called again, acked."""
    unregister_while_it_runs(router, client, handler)
    said = register(client, router, handler, epoch=2)
    assert [item["id"] for item in said["holding"]] == ["m1"]
    router.deliver("w", "m1", epoch=2)
    handler.go.set()
    frame = router.next()
    assert (frame.verb, frame.payload["epoch"]) == ("handled", 2)
    assert handler.ids == ["m1"]


@pytest.mark.parametrize("ended", [[], ["m1"]])
def test_work_that_ended_while_its_name_was_given_up(
    router: Router, client: Client, handler: Handler, ended: list[str]
) -> None:
    """Listed, not called again, and said, unless it is over at the broker."""
    unregister_while_it_runs(router, client, handler)
    handler.go.set()
    until(lambda: registrations(client)._in_flight._unsaid)
    said = register(client, router, handler, epoch=2, ended=ended)
    assert [item["id"] for item in said["holding"]] == ["m1"]
    if not ended:
        router.deliver("w", "m1", epoch=2)
        frame = router.next()
        assert (frame.verb, frame.payload["epoch"]) == ("handled", 2)
        router.ok(frame)
    until(lambda: not held(client))
    assert handler.ids == ["m1"]


def test_what_is_never_said_is_bounded(router: Router, client: Client, handler: Handler) -> None:
    """Of names that nobody registers again the oldest acks are let go."""
    in_flight = registrations(client)._in_flight
    with ThreadPoolExecutor(1) as pool:
        left = pool.submit(client.unregister, "w")
        router.ok(router.next())
        left.result(10)
    for number in range(MAX_UNSAID + 2):
        message = {"id": f"m{number}", "ts": 1.0, "from": "ci", "to": "w", "body": {}}
        one = Delivery({"message": message, "epoch": 1}, "w", lambda *_: None)
        in_flight._held["w", one.message.id] = one
        in_flight.finish(one, None)
    assert len(held(client)) == MAX_UNSAID and held(client)[0] == "m2"


# --- later ------------------------------------------------------------------------------------


def test_later_comes_again_before_its_confirmation(
    router: Router, client: Client, handler: Handler
) -> None:
    """The next delivery overtakes the confirmation: it is handled, and the old ack said no more."""
    handler.outcome = Later(0.01)
    router.deliver("w", "m1")
    assert router.next().verb == "later"
    handler.outcome = {"second": True}
    router.deliver("w", "m1")
    frame = router.next()
    assert (frame.verb, frame.payload["outcome"]) == ("handled", {"second": True})
    router.close()
    back = Router(router.path)
    try:
        back.grant()
        assert back.next().verb == "handled"  # and no `later`
        assert back.quiet()
    finally:
        back.close()


def test_later_comes_again_before_it_is_known_to_be_said(
    router: Router, client: Client, handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker answers before the thread that said `later` runs on: the delivery is not lost."""
    request = ClientConnection.request

    def slow(self: ClientConnection, verb: str, *args: Any, **options: Any) -> Any:
        pending = request(self, verb, *args, **options)
        time.sleep(0.3 if verb == "later" else 0)
        return pending

    monkeypatch.setattr(ClientConnection, "request", slow)
    handler.outcome = Later(0.01)
    router.deliver("w", "m1")
    assert router.next().verb == "later"
    handler.outcome = None
    router.deliver("w", "m1")
    assert router.next().verb == "handled"


def test_a_late_confirmation_of_later_lets_nothing_go(
    router: Router, client: Client, handler: Handler
) -> None:
    """It belongs to the delivery before: the one in hand stays there."""
    handler.outcome = Later(0.01)
    router.deliver("w", "m1")
    later = router.next()
    handler.go.clear()
    router.deliver("w", "m1")
    until(lambda: len(handler.called) == 2)
    router.ok(later)
    router.deliver("w", "m1")
    assert router.quiet()
    assert held(client) == ["m1"]
    assert len(handler.called) == 2


def test_later_and_again_and_again(router: Router, client: Client, handler: Handler) -> None:
    """Put off often, confirmed late: each delivery is handled once, and in the end let go."""
    handler.outcome = Later(0.01)
    frames = []
    for _ in range(10):
        router.deliver("w", "m1")
        frames.append(router.next())
    handler.outcome = Refusal("enough")
    router.deliver("w", "m1")
    frames.append(router.next())
    for frame in frames:
        router.ok(frame)
    assert [frame.verb for frame in frames] == ["later"] * 10 + ["refused"]
    assert len(handler.called) == 11
    until(lambda: not held(client))


# --- started that cannot be -------------------------------------------------------------------


def test_started_waits_for_a_new_grant(router: Router, handler: Handler) -> None:
    """A broker that forgot the connection is registered with; then the work begins."""
    begun = threading.Event()
    handler.act = lambda d: begin(d, begun)
    router.deliver("w", "m1")
    router.err(router.next(), "not_registered")
    router.grant(epoch=2)
    frame = router.next()
    assert (frame.verb, frame.payload["epoch"]) == ("started", 2)
    router.ok(frame)
    assert begun.wait(10)


def test_work_does_not_begin_when_the_name_is_lost(
    router: Router, client: Client, handler: Handler
) -> None:
    """`started` raises; whatever the handler makes of that, nothing is said of the message."""
    errors: list[BaseException] = []

    def act(delivery: Delivery) -> None:
        try:
            delivery.started()
        except NotRegistered as exc:
            errors.append(exc)

    handler.act = act
    router.deliver("w", "m1")
    frame = router.next()
    assert frame.verb == "started"
    router.err(frame, "fenced")
    hello, claim = router.expect("hello", "register")
    router.ok(hello)
    router.err(claim, "name_taken")
    until(lambda: errors)
    assert router.quiet()
    until(lambda: not held(client))


def test_a_wrong_token_is_the_handlers_fault(router: Router, handler: Handler) -> None:
    """The broker refuses the token: `started` raises that, and the delivery is still ours."""
    handler.act = lambda d: d.started("short")
    router.deliver("w", "m1")
    router.err(router.next(), "bad_message")
    frame = router.next()
    assert frame.verb == "refused"
    assert "bad_message!" in frame.payload["reason"]


def test_closing_wakes_a_handler_that_waits_in_started(
    router: Router, client: Client, handler: Handler
) -> None:
    """It gets NotRunning: the work must not begin."""
    errors: list[BaseException] = []

    def act(delivery: Delivery) -> None:
        try:
            delivery.started()
        except NotRunning as exc:
            errors.append(exc)

    handler.act = act
    router.deliver("w", "m1")
    assert router.next().verb == "started"
    router.close()
    client.close()
    until(lambda: errors)
