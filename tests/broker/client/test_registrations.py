"""
The names of a client, seen from the broker's side: a ROUTER that says what the test tells it to.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from fakes.broker import until
from fakes.router import Router
from wakebus.broker import Client, Delivery, Outcome
from wakebus.broker.client.registrations import Registrations
from wakebus.broker.errors import BadName, NameTaken, NotRegistered, NotRunning, TimedOut
from wakebus.broker.protocol.message import new_id

Handler = Callable[[Delivery], Outcome]


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
        router.close()  # so that closing the client waits for no answer
        until(lambda: not found.connected(0))


@pytest.fixture
def claim(client: Client) -> Iterator[Callable[..., "Future[int]"]]:
    """Return `claim(name, handler, **options)`: registers in a thread of its own."""

    def register(name: str, handler: Handler, after: float, options: dict[str, Any]) -> int:
        time.sleep(after)
        return client.register(name, handler, **options)

    with ThreadPoolExecutor(8) as pool:
        yield lambda name="w", handler=nothing, after=0.0, **options: pool.submit(
            register, name, handler, after, options
        )


def registrations(client: Client) -> Registrations:
    return client._core.registrations()


def nothing(delivery: Delivery) -> Outcome:
    return None


# --- claiming ---------------------------------------------------------------------------------


def test_a_name_is_claimed_and_granted(claim: Any, router: Router) -> None:
    """`register` returns the epoch that the broker granted."""
    granted = claim("w")
    said = router.grant(epoch=7)
    assert granted.result(10) == 7
    assert said == {"name": "w", "takeover": False, "holding": []}


def test_a_wrong_name_is_refused_without_a_word(client: Client, router: Router) -> None:
    """What is no name is an error here; the broker hears nothing."""
    with pytest.raises(BadName):
        client.register("no name", nothing)
    assert router.quiet(0.1)


def test_a_refused_claim_leaves_nothing(claim: Any, router: Router, client: Client) -> None:
    """The refusal is raised; the name may be claimed again."""
    refused = claim("w")
    _, register = router.expect("hello", "register")
    router.err(register, "name_taken", pid=4711)
    with pytest.raises(NameTaken) as caught:
        refused.result(10)
    assert caught.value.data["pid"] == 4711
    again = claim("w", takeover=True)
    assert router.grant()["takeover"] is True
    assert again.result(10) == 1


def test_a_name_is_held_once_by_one_client(claim: Any, router: Router, client: Client) -> None:
    """A second claim by the same client is refused here, and the first one stays."""
    granted = claim("w")
    router.grant()
    granted.result(10)
    with pytest.raises(NameTaken, match="already"):
        client.register("w", nothing)


def test_a_broker_that_is_silent_costs_the_timeout(client: Client, router: Router) -> None:
    """Written and not answered: TimedOut, and the broker is told that the claim is given up."""
    client.timeout = 0.2
    with pytest.raises(TimedOut, match="did not answer"):
        client.register("w", nothing)
    router.expect("hello", "register", "unregister")


def test_without_a_broker_nothing_is_registered(client: Client, router: Router) -> None:
    """Nothing was written: NotRunning."""
    router.close()
    until(lambda: not client.connected(0))
    client.timeout = 0.2
    with pytest.raises(NotRunning, match="nothing was registered"):
        client.register("w", nothing)


def test_a_name_claimed_while_away_is_registered_at_the_connect(
    claim: Any, router: Router, client: Client
) -> None:
    """`register` may be called while the broker is away; it is granted when that comes."""
    router.close()
    until(lambda: not client.connected(0))
    waiting = claim("w")
    back = Router(router.path)
    try:
        back.grant(epoch=3)
        assert waiting.result(10) == 3
    finally:
        back.close()


def test_no_name_misses_the_greeting(claim: Any, router: Router, client: Client) -> None:
    """Names that are claimed in the very moment of a reconnect are all registered."""
    path = router.path
    for turn in range(10):
        router.close()
        router = Router(path)
        # The client comes back after 0.1 to 0.4 s: claims come just before, while, and after.
        claims = [claim(f"w{turn}-{n}", after=n * 0.05) for n in range(8)]
        router.grant_all(lambda all_=claims: not all(one.done() for one in all_))  # type: ignore[misc]
        assert {one.result(0) for one in claims} == {1}
        for n in range(8):
            registrations(client).give_up(f"w{turn}-{n}")
    router.close()


# --- a suffix ---------------------------------------------------------------------------------


def grant_second(router: Router) -> dict[str, Any]:
    """Grant `w-2` for `w`; return what `register` said."""
    hello, register = router.expect("hello", "register")
    router.ok(hello)
    router.ok(register, {"name": "w-2", "epoch": 1, "ended": [], "ephemeral": True})
    return register.payload


def test_a_name_with_a_suffix_is_held_under_that_name(
    claim: Any, router: Router, client: Client
) -> None:
    """PROTOCOL-5.13: deliveries, sender and `names` are those of what was granted."""
    called: list[str] = []
    granted = claim("w", lambda d: called.append(d.name), suffix=True)
    said = grant_second(router)
    router.deliver("w-2", "m1")
    assert granted.result(10) == 1
    assert said == {"name": "w", "takeover": False, "suffix": True, "holding": []}
    until(lambda: called == ["w-2"])
    assert client.names == {"w": "w-2"} and registrations(client).own_name() == "w-2"
    assert router.next().payload["to"] == "w-2"  # handled


def test_a_name_with_a_suffix_is_claimed_again_as_it_was_granted(
    claim: Any, router: Router, client: Client
) -> None:
    """PROTOCOL-5.14: after a reconnect, as ephemeral; never with another suffix."""
    first, second = claim("v"), None
    router.grant()
    first.result(10)
    second = claim("w", suffix=True)
    grant_second(router)
    second.result(10)
    assert client.names == {"v": "v", "w": "w-2"}
    router.close()
    back = Router(router.path)
    try:
        _, one, two = back.expect("hello", "register", "register")
        again = {"takeover": False, "holding": []}
        assert one.payload == {"name": "v", **again}
        assert two.payload == {"name": "w-2", "ephemeral": True, **again}
    finally:
        back.close()


def test_what_was_granted_as_it_was_asked_for_is_claimed_plainly(
    claim: Any, router: Router, client: Client
) -> None:
    """PROTOCOL-5.14: it is not ephemeral, and wants no suffix any more."""
    granted = claim("w", suffix=True)
    assert router.grant()["suffix"] is True
    granted.result(10)
    router.err(router.next(without=("got",)), "not_registered")  # a beat
    assert router.grant() == {"name": "w", "takeover": False, "holding": []}


def test_a_name_is_asked_for_once(claim: Any, router: Router, client: Client) -> None:
    """Neither under the name that was asked for nor under the granted one, and it is given up by
    both."""
    granted = claim("w", suffix=True)
    grant_second(router)
    granted.result(10)
    with pytest.raises(NameTaken, match="holds w already as w-2"):
        client.register("w", nothing, suffix=True)
    with pytest.raises(NameTaken, match="holds w-2 already"):
        client.register("w-2", nothing)
    with ThreadPoolExecutor(1) as pool:
        left = pool.submit(client.unregister, "w")
        frame = router.next()
        assert (frame.verb, frame.payload) == ("unregister", {"name": "w-2"})
        router.ok(frame)
        left.result(10)
    assert client.names == {}


def test_a_grant_that_comes_too_late_is_given_back(client: Client, router: Router) -> None:
    """PROTOCOL-5.9: `register` has raised; nobody would answer under that name."""
    client.timeout = 0.2
    with pytest.raises(TimedOut, match="did not answer"):
        client.register("w", nothing, suffix=True)
    hello, register, unregister = router.expect("hello", "register", "unregister")
    assert unregister.payload == {"name": "w"}
    router.ok(hello)
    router.ok(register, {"name": "w-2", "epoch": 1, "ended": [], "ephemeral": True})
    assert router.next().payload == {"name": "w-2"}
    assert client.names == {}


def test_a_grant_of_what_is_held_already_is_refused(
    claim: Any, router: Router, client: Client
) -> None:
    """Two long names may be cut to the same one: the first stays as it is."""
    first = claim("w-2")
    router.grant()
    first.result(10)
    second = claim("w", suffix=True)
    grant_second(router)
    with pytest.raises(NameTaken, match="holds w-2 already"):
        second.result(10)
    assert client.names == {"w-2": "w-2"} and router.quiet(0.1)


# --- keeping ----------------------------------------------------------------------------------


def test_a_broker_that_comes_back_is_told_every_name(
    claim: Any, router: Router, client: Client
) -> None:
    """After a reconnect each name is registered again, without taking it over again."""
    first = claim("w", takeover=True)
    assert router.grant()["takeover"] is True
    first.result(10)
    router.close()
    back = Router(router.path)
    try:
        assert back.grant()["takeover"] is False
    finally:
        back.close()


def test_a_beat_that_nobody_knows_makes_it_register_again(
    claim: Any, router: Router, client: Client
) -> None:
    """`not_registered` is the answer of a broker that lost the connection's names."""
    granted = claim("w")
    router.grant()
    granted.result(10)
    router.err(router.next(without=("got",)), "not_registered")
    router.grant()


def test_beats_do_not_pile_up(claim: Any, router: Router, client: Client) -> None:
    """A broker that answers no beat costs one pending request, not one every two seconds."""
    granted = claim("w")
    router.grant()
    granted.result(10)
    for _ in range(50):
        registrations(client).heartbeat({})
    assert len(client._core.connection._pending) <= 2


# --- losing -----------------------------------------------------------------------------------


def test_a_name_that_is_taken_over_is_gone(claim: Any, router: Router, client: Client) -> None:
    """`fenced` ends it: on_lost is called once, and later deliveries are left alone."""
    lost: list[str] = []
    called: list[Delivery] = []
    granted = claim("w", lambda d: called.append(d), on_lost=lost.append)
    router.grant()
    granted.result(10)
    router.say("fenced", {"to": "w"})
    router.say("fenced", {"to": "w"})
    until(lambda: lost)
    router.deliver("w", "m1")
    assert router.quiet()
    assert len(lost) == 1
    assert not called


def test_fenced_is_not_believed_while_a_claim_is_on_its_way(
    claim: Any, router: Router, client: Client
) -> None:
    """It may speak of an earlier registration: only the claim's answer tells."""
    lost: list[str] = []
    granted = claim("w", on_lost=lost.append)
    hello, register = router.expect("hello", "register")
    router.say("fenced", {"to": "w"})
    router.ok(hello)
    router.ok(register, {"name": "w", "epoch": 3, "ended": []})
    assert granted.result(10) == 3
    assert not lost


def test_a_name_that_is_refused_after_a_reconnect_is_lost(
    claim: Any, router: Router, client: Client
) -> None:
    """Somebody else has it now: on_lost says who, and the client does not fight back."""
    lost: list[str] = []
    granted = claim("w", on_lost=lost.append)
    router.grant()
    granted.result(10)
    router.close()
    back = Router(router.path)
    try:
        _, register = back.expect("hello", "register")
        back.err(register, "name_taken")
        until(lambda: lost)
        assert back.quiet()
    finally:
        back.close()


def test_a_refusal_that_may_pass_is_no_loss(claim: Any, router: Router, client: Client) -> None:
    """`unavailable` at a reconnect: the name is kept, and the next beat registers it."""
    lost: list[str] = []
    granted = claim("w", on_lost=lost.append)
    router.grant()
    granted.result(10)
    router.close()
    back = Router(router.path)
    try:
        _, register = back.expect("hello", "register")
        back.err(register, "unavailable", retry=True)
        back.err(back.next(without=("got",)), "not_registered")
        back.grant()
        assert not lost
    finally:
        back.close()


def test_unregistering_what_is_not_held_is_an_error(client: Client, router: Router) -> None:
    """The broker's word is raised."""
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.unregister, "w")
        router.err(router.next(), "not_registered")
        with pytest.raises(NotRegistered):
            asked.result(10)


def test_closing_ends_a_claim_on_its_way(claim: Any, router: Router, client: Client) -> None:
    """Who waits for a grant is told at once that the client is closed."""
    waiting = claim("w")
    router.expect("hello", "register")
    closer = threading.Thread(target=client.close)
    closer.start()
    with pytest.raises(NotRunning, match="closed"):
        waiting.result(3)
    closer.join(10)
    assert not closer.is_alive()


def test_the_first_name_is_the_sender(claim: Any, router: Router, client: Client) -> None:
    """A client that holds a name sends as it, unless it says otherwise."""
    granted = claim("w")
    router.grant()
    granted.result(10)
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(client.send, "x", "hello", id=new_id(0))
        frame = router.next()
        assert frame.payload["message"]["from"] == "w"
        router.ok(frame, {"id": "a", "state": "queued"})
        sent.result(10)
