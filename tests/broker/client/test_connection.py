"""The IO thread: what it writes, writes again, and never waits for."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.broker import until
from fakes.router import Router
from wakebus.broker.client.connection import ClientConnection
from wakebus.broker.client.pending_request import PendingRequest
from wakebus.broker.errors import BadFrame, NotRunning, TimedOut, WakebusError


class Side:
    """The client's side of a connection: what it was told, and what it greets with."""

    def __init__(self) -> None:
        self.address = ""
        self.frames: list[tuple[str, dict[str, Any]]] = []
        self.greet: Callable[[], None] = lambda: None

    def open(self, path: Path) -> ClientConnection:
        self.address = f"ipc://{path}"
        return ClientConnection(
            lambda: self.address,
            lambda: self.greet(),
            lambda verb, payload: self.frames.append((verb, payload)),
            lambda: None,
        )


@pytest.fixture
def side() -> Side:
    return Side()


@pytest.fixture
def path(bus_root: Path) -> Path:
    return bus_root / "s"


@pytest.fixture
def router(path: Path) -> Iterator[Router]:
    found = Router(path)
    yield found
    found.close()


@pytest.fixture
def connection(side: Side, path: Path, router: Router) -> Iterator[ClientConnection]:
    found = side.open(path)
    assert found.connected(10)
    yield found
    found.close(10)


def test_a_request_gets_its_answer(connection: ClientConnection, router: Router) -> None:
    """An answer finds its request by the sequence, in any order."""
    one, two = connection.request("list", {"n": 1}), connection.request("list", {"n": 2})
    first, second = router.expect("list", "list")
    router.ok(second, {"n": 2})
    router.ok(first, {"n": 1})
    assert one.wait(10) and two.wait(10)
    assert (one.answer, two.answer) == ({"n": 1}, {"n": 2})


def test_an_error_is_raised_as_its_class(connection: ClientConnection, router: Router) -> None:
    """`err` becomes the class of its code, with its data."""
    pending = connection.request("wait", {})
    router.err(router.next(), "timeout", state="queued")
    assert pending.wait(10)
    assert isinstance(pending.error, TimedOut)
    assert pending.error.data == {"state": "queued"}


def test_what_the_broker_says_by_itself_is_handed_on(
    connection: ClientConnection, router: Router, side: Side
) -> None:
    """Frames that answer nothing go to `on_frame`."""
    connection.request("list", {})
    router.ok(router.next())
    router.say("going", {})
    until(lambda: side.frames == [("going", {})])


def test_nonsense_is_passed_over(connection: ClientConnection, router: Router) -> None:
    """Bytes that are no frame, and answers that nobody waits for, harm nothing."""
    pending = connection.request("list", {})
    frame = router.next()
    for data in (b"", b"\xff", b"[]", b"{}", b'[9,"ok",1,{}]', b'[1,"ok",77,{}]'):
        router.raw(data)
    router.ok(frame, {"fine": True})
    assert pending.wait(10)
    assert pending.answer == {"fine": True}


def test_what_json_cannot_carry_is_refused_at_once(connection: ClientConnection) -> None:
    """NaN is an error of the caller, raised to him."""
    with pytest.raises(BadFrame):
        connection.request("send", {"x": float("nan")})


def test_a_broker_that_comes_back_gets_what_was_not_answered(
    connection: ClientConnection, router: Router, side: Side, path: Path
) -> None:
    """After a reconnect: the greeting, then the unanswered in their order, without the fleeting."""

    def greet() -> None:
        connection.request("hello", {}, fleeting=True)

    side.greet = greet
    pending = [connection.request("send", {"n": n}) for n in range(3)]
    connection.request("got", {}, fleeting=True)
    frames = router.expect("send", "send", "send")
    router.ok(frames[1])
    assert pending[1].wait(10)
    router.close()
    again = Router(path)
    try:
        frames = again.expect("hello", "send", "send")
        assert [frame.payload.get("n") for frame in frames] == [None, 0, 2]
        assert again.quiet()
    finally:
        again.close()


def test_nothing_is_written_before_the_greeting(
    router: Router, side: Side, path: Path, connection: ClientConnection
) -> None:
    """Requests that come from other threads in the moment of a reconnect wait for the greeting."""

    def greet() -> None:
        time.sleep(0.1)
        connection.request("hello", {}, fleeting=True)

    side.greet = greet
    router.close()
    until(lambda: not connection.connected(0))
    again = Router(path)
    try:
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            connection.request("list", {}, fleeting=True)
            time.sleep(0.005)
        assert again.next().verb == "hello"
    finally:
        again.close()


def test_dropping_tells_whether_it_was_written(
    connection: ClientConnection, router: Router
) -> None:
    """A request that the socket took may have been read; one that it did not take was not."""
    written = connection.request("send", {})
    router.next()
    assert connection.drop_request(written) is True
    router.close()
    until(lambda: not connection.connected(0))
    unwritten = connection.request("send", {})
    assert connection.drop_request(unwritten) is False


def test_what_was_dropped_is_not_written_later(
    connection: ClientConnection, router: Router, path: Path
) -> None:
    """An abandoned request leaves the queue: it costs no memory, and a broker never sees it."""
    router.close()
    until(lambda: not connection.connected(0))
    connection.drop_request(connection.request("send", {"body": "x" * 1_000_000}))
    assert not connection._outbox
    again = Router(path)
    try:
        connection.request("list", {})
        again.expect("list")
        assert again.quiet()
    finally:
        again.close()


def test_without_a_broker_nothing_is_connected_or_written(side: Side, path: Path) -> None:
    """Where nobody listens a request waits, unwritten, until its caller gives up."""
    connection = side.open(path)
    pending = connection.request("list", {})
    assert not connection.connected(0.3)
    assert not pending.wait(0)
    assert not connection.drop_request(pending)
    connection.close(10)


def test_another_address_is_taken_up(side: Side, router: Router, bus_root: Path) -> None:
    """While it is not connected it looks for the broker's address again."""
    connection = side.open(bus_root / "nobody")
    try:
        pending = connection.request("list", {})
        side.address = f"ipc://{router.path}"
        router.ok(router.next())
        assert pending.wait(10)
        assert connection.address == f"ipc://{router.path}"
    finally:
        connection.close(10)


def test_an_address_that_cannot_be_read_or_used_is_passed_over(
    side: Side, router: Router, bus_root: Path
) -> None:
    """A lost, wrong or impossible address costs nothing: it is looked at again."""
    connection = side.open(bus_root / "nobody")
    address = connection._address
    looked: list[str] = []

    def failing() -> str:
        looked.append("failed")
        raise WakebusError("no such file")

    def impossible() -> str:
        looked.append("impossible")
        return "ipc://" + "x" * 200

    try:
        for one in (failing, impossible):
            looked.clear()
            connection._address = one
            until(lambda: len(looked) > 1)
        connection._address = address
        side.address = f"ipc://{router.path}"
        assert connection.connected(10)
    finally:
        connection.close(10)


def test_an_impossible_address_is_an_error(side: Side) -> None:
    """What no socket can connect to is said to the caller, with the address."""
    with pytest.raises(NotRunning, match=r"ipc:///xxx.*too long"):
        side.open(Path("/" + "x" * 150))


def test_closing_finishes_every_request(connection: ClientConnection, router: Router) -> None:
    """Who waits is woken without an answer; what is asked afterwards is finished at once."""
    told: list[PendingRequest] = []
    waiting = connection.request("list", {}, told.append)
    router.next()
    connection.close(10)
    late = connection.request("list", {}, told.append)
    assert waiting.wait(0) and late.wait(0)
    assert [(p.answer, p.error) for p in told] == [(None, None)] * 2
    assert (waiting.written, late.written) == (True, False)
    assert not connection.connected(0)


def test_closing_twice_is_harmless(connection: ClientConnection) -> None:
    """The second close has nothing to do."""
    connection.close(10)
    connection.close(10)


def test_a_closed_transport_writes_to_no_descriptor(connection: ClientConnection) -> None:
    """Its wake-up pipe's number may be another file's by now."""
    number = connection._wake_write
    connection.close(10)
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.dup2(write, number)
    try:
        connection.request("list", {})
        connection.close(10)
        with pytest.raises(BlockingIOError):
            os.read(read, 1)
    finally:
        for descriptor in {read, write, number}:
            os.close(descriptor)
