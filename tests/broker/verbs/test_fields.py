"""What several verbs read of a request."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.hub import Bench
from wakebus.broker.core.model import ClientRequest
from wakebus.broker.errors import BadMessage, BadName, Busy, WakebusError
from wakebus.broker.verbs import dead_letters
from wakebus.broker.verbs.fields import FAULT, answering, requester


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A hub without sockets."""
    found = Bench(tmp_path)
    yield found
    found.close()


WRONG: list[dict[str, Any]] = [
    *({"limit": n} for n in (0, 201, 1.0, "1", True, None)),
    *({"after": a} for a in (5, [], [1], [1, "x"], [1, 2, 3, 4], [1e400, 0], [2**70, 1])),
    {"after": [1, 2, 3]},  # a cursor of `inbox`
    *({"before": b} for b in ("x", ["x"], float("inf"), True)),
]


@pytest.mark.parametrize("payload", WRONG)
def test_pages_are_asked_for_rightly(bench: Bench, payload: dict[str, Any]) -> None:
    """PROTOCOL-10.7: a wrong limit, cursor or time is told, whatever it is."""
    with pytest.raises(BadMessage):
        dead_letters.dead(bench.hub, bench.request(payload))


def test_who_did_it(bench: Bench) -> None:
    """PROTOCOL-10.11: the holder of a name is believed, another name is claimed."""
    bench.greeted(b"x").names |= {"b", "a"}
    asked = [{}, {"by": "b"}, {"by": "ci"}]
    found = [requester(bench.hub, bench.request(payload, b"x")) for payload in asked]
    assert found == [
        {"by": "a", "pid": 0},
        {"by": "b", "pid": 0},
        {"by": "ci", "pid": 0, "claimed": True},
    ]
    with pytest.raises(BadName):
        requester(bench.hub, bench.request({"by": "x y"}))


def test_a_fault_after_the_store_is_answered() -> None:
    """PROTOCOL-3.1: never with silence; an error that was meant is told as it is."""
    said: list[Any] = []
    hub: Any = SimpleNamespace(fail=lambda request, error: said.append((request, error)))
    request = ClientRequest(b"c", 1, {}, 0, 0)

    def fails(result: Any) -> None:
        raise result

    answering(hub, request, fails)(KeyError("x"))
    answering(hub, request, fails)(Busy("later"))
    assert [one[0] for one in said] == [request, request]
    assert type(said[0][1]) is WakebusError and said[0][1].text == FAULT
    assert isinstance(said[1][1], Busy)
