"""What both clients are made of, before a ROUTER that says what the test tells it to."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.broker import until
from fakes.router import Router
from wakebus.broker.client import connection
from wakebus.broker.client.calls import BrokerRequest
from wakebus.broker.client.core import ClientCore
from wakebus.broker.errors import Conflict, NotRunning, TimedOut, Undecided, WakebusError


@pytest.fixture
def router(bus_root: Path) -> Iterator[Router]:
    found = Router(bus_root / "s")
    yield found
    found.close()


@pytest.fixture
def core(router: Router) -> Iterator[ClientCore]:
    found = ClientCore(str(router.path))
    assert found.connection.connected(10)
    yield found
    found.close()


def test_a_part_is_made_by_its_first_use(core: ClientCore) -> None:
    """Once; what only looks makes none. A closed client makes none any more."""
    assert (core.names(), core.dropped, core.missed, core._parts()) == ({}, 0, 0, [])
    assert next(core.calls.unregister("w")).payload == {"name": "w"}
    assert core._parts() == []
    assert core.registrations() is core.registrations() and core.topics() is core.topics()
    assert core._parts() == [core.registrations(), core.topics()]
    core.close()
    assert core.topics() is core._topics  # and says so itself
    with pytest.raises(NotRunning, match="closed"):
        core.registrations()


@pytest.mark.parametrize(
    ("asked", "written", "came", "error", "text"),
    [
        (BrokerRequest("list", {}), False, True, NotRunning, "this client is closed"),
        (BrokerRequest("list", {}), False, False, NotRunning, "nothing was sent"),
        (BrokerRequest("list", {}), True, False, TimedOut, "did not answer `list` within 2 s"),
        (BrokerRequest("list", {}), True, True, TimedOut, "before this client was closed"),
        (BrokerRequest("send", {}, id="m1"), True, False, Undecided, "may have stored m1"),
        (BrokerRequest("wait", {}, waited="m1"), True, False, TimedOut, "no word of m1"),
        (BrokerRequest("wait", {}, waited="m1"), False, False, TimedOut, "no word of m1"),
    ],
)
def test_a_request_without_an_answer(
    core: ClientCore,
    asked: BrokerRequest,
    written: bool,
    came: bool,
    error: type[WakebusError],
    text: str,
) -> None:
    """What the broker may have done of it decides."""
    pending = core.connection.request(asked.verb, asked.payload)
    core.connection.drop_request(pending)
    pending.written = written
    with pytest.raises(error, match=text):
        core.answer(asked, pending, 2.0, came=came)


def test_an_answer_that_came_in_the_end(core: ClientCore) -> None:
    """Though its caller had given up: it is the answer, or the broker's error."""
    asked = BrokerRequest("list", {})
    pending = core.connection.request(asked.verb, asked.payload)
    pending.settle("ok", {"a": 1})
    assert core.answer(asked, pending, 2.0, came=False) == {"a": 1}
    pending.settle("err", {"code": "conflict", "text": "no"})
    with pytest.raises(Conflict):
        core.answer(asked, pending, 2.0, came=True)


def test_a_heartbeat_without_a_name_tells_what_was_missed(
    router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is not sent where there is nothing to tell; before a silent broker only one waits."""
    monkeypatch.setattr(connection, "BEAT_S", 0.01)
    core = ClientCore(str(router.path))
    try:
        assert router.quiet(0.1) and core.connection.connected(10)
        heard: dict[str, Any] = {"missed": 3}
        monkeypatch.setattr(core, "_topics", Missed(heard))
        frame = router.next(without=())
        assert (frame.verb, frame.payload) == ("beat", {"missed": 3, "instance": core.instance})
        until(lambda: router.next(without=()).sequence > frame.sequence + 3)
        assert len(core.connection._pending) <= 2
    finally:
        monkeypatch.undo()
        core.close()


class Missed:
    """A topic plane that tells this."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts

    def heartbeat(self) -> dict[str, Any]:
        return self.facts

    def greet(self) -> None:
        """Nothing has changed."""
